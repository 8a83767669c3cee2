"""Pairs of tuples that are so far apart in time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cep.errors import QueryError
from cep.model.checked import check_fields
from cep.model.contract import phrases
from cep.model.contract.forms import EXPRESSION, PAIRS, SPAN, TEXT, Form, optional
from cep.model.contract.matching import JOINS, Conditional, Pairs, WithoutWindows
from cep.model.expr import Expr
from cep.model.functions import Order
from cep.model.windows import check_span


@dataclass(frozen=True)
class IntervalJoin(WithoutWindows, Conditional):
    """Pairs in which the right tuple's event time is from `lower` to `upper` µs (both included) after the left one's. None: it has no
    bound, and the tuples of a side, of the right one without `lower`, of the left one without `upper`, are kept for ever."""

    name: str
    left: str
    right: str
    lower: int | None
    upper: int | None
    on: Pairs
    how: str = "inner"
    condition: Expr | None = None
    prefix: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        self.check_matching(JOINS)
        for key, bound in (("lower", self.lower), ("upper", self.upper)):
            check_span(abs(bound or 1), key, f"/{key}")
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            message = (
                f"operator {self.name!r}: lower: expected at most upper ({phrases.signed(self.upper)}), got {phrases.signed(self.lower)}"
            )
            raise QueryError(message, "/lower")

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {
            "left": TEXT,
            "right": TEXT,
            "on": PAIRS,
            "how": TEXT,
            "prefix": TEXT,
            "lower": optional(SPAN),
            "upper": optional(SPAN),
            "condition": optional(EXPRESSION),
        }

    def explained(self) -> str:
        on = phrases.on_pairs(self.on)
        if self.lower is None and self.upper is None:
            return f"{self.how} join without a time bound{on}; keeps all tuples of both for ever"
        if self.lower is not None and self.upper is not None:
            return f"{self.how} interval join from {phrases.signed(self.lower)} to {phrases.signed(self.upper)}{on}"
        between = f"up to {phrases.signed(self.upper)}" if self.upper is not None else f"from {phrases.signed(self.lower or 0)}"
        return f"{self.how} interval join {between}{on}; keeps all tuples of the {'left' if self.upper is None else 'right'} for ever"

    @property
    def row_order(self) -> Order:
        return Order.COMMUTATIVE

    def grain(self, below: int) -> int:
        """Only tuples that have met none wait for a watermark; what is over may be forgotten later."""
        return below if self.how == "inner" else 1

    def reads_origins(self, times: Collection[str]) -> bool:
        return False
