"""What lets tuples of a window out as they came, once the window has closed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import gcd

from cep.model.contract.columns import check_columns
from cep.model.contract.operator import Grouped, Origins, Wanted
from cep.model.functions import Order
from cep.model.schema import Schema
from cep.model.windows import PanedWindow, SizeWindow, TimeWindow


class Selecting(Grouped):
    """Which tuples of a window and group come out, and in which order, is left to say. Event time is window end - 1, of a window by
    rows that of its last one.

    Without a window all tuples come out, in stream order, at their own time.
    """

    window: TimeWindow | SizeWindow | None

    def output_schema(self, *inputs: Schema) -> Schema:
        check_columns(self.name, "by", self.by, inputs[0])
        return inputs[0]

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return {*self.by, *wanted(names)}

    def passes(self, column: str) -> tuple[str, ...] | None:
        return (column,)

    @property
    def keeps_time(self) -> bool:
        return self.window is None

    @property
    def origins(self) -> Origins:
        return Origins.KEPT

    @property
    def repeats(self) -> bool:
        return isinstance(self.window, TimeWindow) and self.window.advance < self.window.size

    @property
    def row_order(self) -> Order:
        return Order.MERGEABLE if isinstance(self.window, TimeWindow) else Order.SEQUENTIAL

    def reads_origins(self, times: Collection[str]) -> bool:
        return True

    def grain(self, below: int) -> int:
        return gcd(below, self.window.grain) if isinstance(self.window, TimeWindow) else 1

    @property
    def windows(self) -> Mapping[str, PanedWindow | SizeWindow]:
        return {"window": self.window} if isinstance(self.window, TimeWindow) else {}
