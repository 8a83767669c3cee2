"""Expressions over a state taken apart: what of them is done before the loop, and codes in place of texts.

How to read it:
1. The state is known in the loop only, row by row. What knows nothing of it is done before, for all rows; what may then fail for a row
   for which it was not needed fails in the loop, where it is (`fitting`).
2. A text of the state is a *code* in the loop: the number that a dictionary gives it (`cep.dataflow.outputs.text_codes`). Two texts are
equal if
   their codes are. So a state may be given a text, be chosen (`coalesce`, `when`) and be compared for equality, all as machine words;
   the texts that meet it are columns of codes, and constants are known by their numbers, in the order in which they are seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cep.compile.chain.members import as_member
from cep.compile.chain.steps import Lowering, is_leaf
from cep.model.expr import Binary, Call, ColumnRef, Expr, Literal, Unary
from cep.model.schema import INT64, DataType, Field
from cep.model.types import Typed, literal_value, typed

#: A hidden function: its first argument; a row fails where one of the others is false.
FITTING = "fitting"


def word_of(type_: DataType) -> DataType:
    """What a state of `type_` is in the loop."""
    return INT64 if type_.is_text else type_


@dataclass
class StateLowering(Lowering):
    """`state`: names of columns that the loop has; `texts`: the codes of constants, 0, 1, …; `codes`: text column -> its codes."""

    state: frozenset[str] = frozenset()
    texts: dict[bytes, int] = field(default_factory=dict)
    codes: dict[str, Field] = field(default_factory=dict)

    def of_state(self, tree: Typed) -> bool:
        """Is it computed from the state?"""
        return (isinstance(tree.expr, ColumnRef) and tree.expr.name in self.state) or any(map(self.of_state, tree.args))

    def update(self, name: str, expr: Expr, type_: DataType) -> Typed:
        """The new value of a state of `type_`."""
        if not type_.is_text:
            return self.output(name, expr)
        self.where = f"state {name!r}"
        return self._coded(typed(expr, self.fields), None)

    def begins(self, literal: Literal) -> Literal:
        """With which word a state begins."""
        return self.code_of(literal) if literal.type.is_text else literal

    def code_of(self, literal: Literal) -> Literal:
        """The code of a constant."""
        text = literal_value(literal)
        if text is None:
            return Literal(None, INT64)
        assert isinstance(text, bytes)
        return Literal(self.texts.setdefault(text, len(self.texts)), INT64)

    def _flat(self, tree: Typed, needed: Typed | None) -> Typed:
        if not self.of_state(tree):
            return self._beforehand(tree, needed)
        if tree.type.is_text:
            return self._coded(tree, needed)
        match tree.expr:
            case Binary("=" | "!=", _, _) | Unary("is_null", _) if any(arg.type.is_text for arg in tree.args):
                return replace(tree, args=tuple(self._coded(arg, needed) for arg in tree.args))
            case Binary("or", _, _) if (member := as_member(tree)) is not None and member.args[0].type.is_text:
                return replace(member, args=tuple(self._coded(arg, needed) for arg in member.args))
        return super()._flat(tree, needed)

    def _beforehand(self, tree: Typed, needed: Typed | None) -> Typed:
        """What knows nothing of the state; where that decides whether it is needed, the loop lets it fail."""
        if needed is None or is_leaf(tree) or not self.of_state(needed):
            return super()._flat(tree, needed)
        outer, self.tried = self.tried, []
        flat = super()._flat(tree, None)
        fits, self.tried = self.tried, outer
        return replace(flat, expr=Call(FITTING, (tree.expr,)), args=(flat, *fits)) if fits else flat

    def _coded(self, tree: Typed, needed: Typed | None) -> Typed:
        """The code of a text."""
        if not self.of_state(tree):
            return self._code(self._beforehand(tree, needed))
        if isinstance(tree.expr, ColumnRef):
            return replace(tree, type=INT64)
        chosen = super()._flat(replace(tree, type=INT64), needed)
        return replace(chosen, args=tuple(self._code(arg) if arg.type.is_text else arg for arg in chosen.args))

    def _code(self, flat: Typed) -> Typed:
        """The code of a text column or constant, or of one that is to fit."""
        match flat.expr:
            case Literal():
                return Typed(self.code_of(flat.expr), INT64, flat.nullable)
            case ColumnRef(name):
                codes = self.codes.setdefault(name, Field(f"__code_{name}", INT64, flat.nullable))
                return Typed(ColumnRef(codes.name), INT64, flat.nullable)
        text, *fits = flat.args
        return replace(flat, type=INT64, args=(self._code(text), *fits))
