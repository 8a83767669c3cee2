"""Pairs of tuples whose windows end together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import gcd

from cep.errors import QueryError
from cep.model.checked import check_fields
from cep.model.contract import phrases
from cep.model.contract.forms import EXPRESSION, PAIRS, TEXT, TIME_WINDOW, Form, optional
from cep.model.contract.matching import JOINS, Conditional, Pairs
from cep.model.duration import format_duration
from cep.model.expr import Expr
from cep.model.functions import Order
from cep.model.windows import PanedWindow, SizeWindow, TimeWindow

SIDES = ("left", "right")


@dataclass(frozen=True)
class Join(Conditional):
    """Window join: pairs of tuples that lie in the windows `[e - size, e)` of their inputs, for every e = k·advance + offset, in which the
    pairs `on` are equal and `condition`, over the joined tuple, is true. Event time e - 1.

    Columns: those of the left, then those of the right with `prefix` before their names, without the right column of a pair of
    the same name. Without `on` (a theta join) the tuples of the side `broadcast` go to every instance.
    """

    name: str
    left: str
    right: str
    window: TimeWindow
    right_window: TimeWindow
    on: Pairs = ()
    how: str = "inner"
    condition: Expr | None = None
    prefix: str = ""
    broadcast: str = "right"

    def __post_init__(self) -> None:
        check_fields(self)
        self.check_matching(JOINS)
        for key in ("advance", "offset"):
            ours, theirs = getattr(self.window, key), getattr(self.right_window, key)
            if ours != theirs:
                got = f"{format_duration(ours)} and {format_duration(theirs)}"
                raise QueryError(f"operator {self.name!r}: both windows of a join have one {key}, got {got}", f"/right_window/{key}")
        if self.broadcast not in SIDES:
            raise QueryError(f"operator {self.name!r}: broadcast: expected 'left' or 'right', got {self.broadcast!r}", "/broadcast")
        if not self.on and self.how == self.broadcast:
            raise QueryError(
                f"operator {self.name!r}: in a {self.how} theta join the {self.how} side is shared out, so that each instance knows "
                f"which of its tuples are unmatched; broadcast the other one",
                "/broadcast",
            )

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {
            "left": TEXT,
            "right": TEXT,
            "on": PAIRS,
            "how": TEXT,
            "prefix": TEXT,
            "window": TIME_WINDOW,
            "right_window": replace(TIME_WINDOW, implied=lambda read: read["window"]),
            "condition": optional(EXPRESSION),
            "broadcast": TEXT,
        }

    def explained(self) -> str:
        own, right = phrases.window(self.window), phrases.window(self.right_window)
        windows = own if self.window == self.right_window else f"{own} and {right}"
        return f"{self.how} join {windows}{phrases.on_pairs(self.on)}{phrases.where(self.condition)}"

    @property
    def repeats(self) -> bool:
        return self.window.advance < max(self.window.size, self.right_window.size)

    @property
    def everywhere(self) -> int | None:
        return None if self.on or self.how == "full" else SIDES.index(self.broadcast)

    @property
    def why_together(self) -> str:
        full = "is a full theta join, which needs all tuples of both sides in one place"
        return full if not self.on and self.how == "full" else super().why_together

    @property
    def row_order(self) -> Order:
        return Order.COMMUTATIVE

    def reads_origins(self, times: Collection[str]) -> bool:
        return False

    def grain(self, below: int) -> int:
        return gcd(below, self.window.advance, self.window.offset)

    @property
    def windows(self) -> Mapping[str, PanedWindow | SizeWindow]:
        return {"window": self.window, "right_window": self.right_window}
