"""The same tuples, later."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import gcd

from cep.model.checked import check_fields
from cep.model.contract.forms import SPAN, TEXT, Form
from cep.model.contract.operator import Wanted
from cep.model.duration import format_duration
from cep.model.operators.filter import Choosing
from cep.model.schema import Schema
from cep.model.windows import check_span


@dataclass(frozen=True)
class Delay(Choosing):
    """The same tuples, `by` µs later in event time."""

    name: str
    input: str
    by: int

    def __post_init__(self) -> None:
        check_fields(self)
        check_span(self.by, "delay", "/by")

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"input": TEXT, "by": SPAN}

    def explained(self) -> str:
        return f"delay by {format_duration(self.by)}"

    def output_schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return wanted(names)

    @property
    def keeps_time(self) -> bool:
        return False

    def grain(self, below: int) -> int:
        return gcd(below, self.by) if below else 0
