"""`x = a or x = b or …` over many constants, as `is_in` is written: one search in a sorted array in place of as many comparisons.

So its code does not grow with the constants, which are arguments of the loop; a loop of hundreds of comparisons takes LLVM minutes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cep.model.expr import Binary, Call, Literal
from cep.model.schema import BOOL, DataType
from cep.model.types import Typed, literal_value, promoted

#: Fewer constants are compared one by one: measured, a loop of 8 numbers runs faster so.
MEMBERS_LEAST = 16

#: A hidden function: does the first argument equal one of the others, which are literals of one type and not NULL?
MEMBER = "member"


def as_member(tree: Typed) -> Typed | None:
    """`tree` with the hidden function in its place, if it is such a disjunction."""
    leaves = list(_disjuncts(tree))
    if len(leaves) < MEMBERS_LEAST:
        return None
    pairs = [_compared(leaf) for leaf in leaves]
    value = pairs[0] and pairs[0][0]
    if value is None:
        return None
    same, common = repr(value.expr), promoted((value.type, leaves[0].args[1].type))
    literals = []
    for pair in pairs:
        if pair is None or promoted((value.type, pair[1].type)) != common or repr(pair[0].expr) != same:
            return None
        literals.append(pair[1])
    if common is None or not (common.is_number or common.is_text or common.name == "timestamp"):
        return None
    return Typed(Call(MEMBER, (value.expr,)), BOOL, value.nullable, (value, *literals))


def _disjuncts(tree: Typed) -> Iterator[Typed]:
    if isinstance(tree.expr, Binary) and tree.expr.op == "or":
        for arg in tree.args:
            yield from _disjuncts(arg)
    else:
        yield tree


def _compared(tree: Typed) -> tuple[Typed, Typed] | None:
    """What is compared for equality with which constant."""
    if not isinstance(tree.expr, Binary) or tree.expr.op != "=":
        return None
    left, right = tree.args
    if not isinstance(right.expr, Literal):
        left, right = right, left
    return (left, right) if isinstance(right.expr, Literal) and right.expr.value is not None else None


def members_of(literals: tuple[Typed, ...], type_: DataType) -> np.ndarray:
    """Numbers and instants, sorted, in the machine's type of `type_`."""
    values = [_value(literal) for literal in literals]
    return np.unique(np.array(values, np.float64 if type_.name == "float64" else np.int64))


def texts_of(literals: tuple[Typed, ...]) -> tuple[bytes, np.ndarray]:
    """Texts, sorted, one after the other, and where each ends (int64), behind a 0."""
    texts = sorted({value for literal in literals if isinstance(value := _value(literal), bytes)})
    return b"".join(texts), np.cumsum([0, *map(len, texts)], dtype=np.int64)


def _value(literal: Typed) -> bool | int | float | bytes:
    assert isinstance(literal.expr, Literal)
    value = literal_value(literal.expr)
    assert value is not None
    return value
