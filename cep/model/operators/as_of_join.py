"""Every tuple with what was last known of the other side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cep.model.checked import check_fields
from cep.model.contract import phrases
from cep.model.contract.forms import PAIRS, SPAN, TEXT, Form, optional
from cep.model.contract.matching import InStreamOrder, Pairs
from cep.model.duration import format_duration
from cep.model.windows import check_span


@dataclass(frozen=True)
class AsOfJoin(InStreamOrder):
    """Every left tuple with the last right one, in stream order, whose event time is at most its own (and at most `tolerance` µs
    before it, if given); `how` inner or left."""

    name: str
    left: str
    right: str
    on: Pairs
    how: str = "inner"
    tolerance: int | None = None
    prefix: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        self.check_matching(("inner", "left"))
        if self.tolerance is not None:
            check_span(self.tolerance, "tolerance", "/tolerance")

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"left": TEXT, "right": TEXT, "on": PAIRS, "how": TEXT, "prefix": TEXT, "tolerance": optional(SPAN)}

    def explained(self) -> str:
        limit = "" if self.tolerance is None else f", tolerance {format_duration(self.tolerance)}"
        return f"{self.how} as-of join{phrases.on_pairs(self.on)}{limit}"
