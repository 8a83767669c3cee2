"""Which rows a pattern's sequence has, asked of a row by itself: those that the row-alone part of a variable's condition is true of."""

from __future__ import annotations

from functools import reduce

from cep.model.expr import BOOLEAN, COMPARISON, Binary, Call, ColumnRef, Expr, Literal, Udf, Unary, lit
from cep.model.patterns.forms import Definitions
from cep.model.patterns.rows import conjuncts, parts, rows_read


def relevance(define: Definitions) -> Expr | None:
    """Whether a row may be one of the variables. A row on which a condition fails is let through, so that the pattern makes a dead letter
    of it. None: there is a variable that every row may be, or what a condition says may be another time another thing, or costs much."""
    found = []
    for _, definition in define:
        alone = [] if definition.condition is None else [each for each in conjuncts(definition.condition) if not rows_read(each)]
        if not alone or any(_is_called_once(part) for each in alone for part in parts(each)):
            return None
        condition = reduce(lambda a, b: a & b, alone)
        found.append(condition if all(map(_never_fails, parts(condition))) else Call("coalesce", (Call("try", (condition,)), lit(True))))
    return reduce(lambda a, b: a | b, found)


def _is_called_once(part: Expr) -> bool:
    return isinstance(part, Udf) or (isinstance(part, Call) and part.function == "now")


def _never_fails(part: Expr) -> bool:
    match part:
        case Binary(op=op):
            return op in (*COMPARISON, *BOOLEAN)
        case Unary(op=op):
            return op != "-"
    return isinstance(part, ColumnRef | Literal)
