"""The first tuples in an order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cep.errors import QueryError
from cep.model.checked import check_fields
from cep.model.contract import phrases
from cep.model.contract.forms import BY, NUMBER, ORDER, TEXT, TIME_WINDOW, Form
from cep.model.operators.sort import Ranked
from cep.model.windows import TimeWindow

N_MAX = 1_000_000


@dataclass(frozen=True)
class TopN(Ranked):
    """The first `n` tuples of what Sort yields."""

    name: str
    input: str
    window: TimeWindow
    by: tuple[str, ...]
    order: tuple[tuple[str, bool], ...]
    n: int
    rank: str = "rank"

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 < self.n <= N_MAX:
            raise QueryError(f"operator {self.name!r}: n: expected 1 to {N_MAX}, got {self.n}", "/n")
        if not self.order:
            raise QueryError(f"operator {self.name!r}: expected at least one column to order by", "/order")

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"input": TEXT, "window": TIME_WINDOW, "by": BY, "order": ORDER, "n": NUMBER, "rank": TEXT}

    def explained(self) -> str:
        return f"first {self.n} of {phrases.window(self.window)}{phrases.by(self.by)} by {phrases.order(self.order)}"
