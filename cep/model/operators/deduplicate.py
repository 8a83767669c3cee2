"""The first of tuples that are the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cep.errors import QueryError
from cep.model.checked import check_fields
from cep.model.contract import phrases
from cep.model.contract.columns import check_columns
from cep.model.contract.forms import BY, SPAN, TEXT, Form, optional
from cep.model.contract.operator import Grouped, Origins, Wanted
from cep.model.duration import format_duration
from cep.model.functions import Order
from cep.model.schema import Schema
from cep.model.windows import PanedWindow, SizeWindow, check_span


class InTurn(Grouped):
    """It takes the tuples of a group one after the other, in stream order, and remembers the group until none came for `ttl` µs."""

    ttl: int | None

    def check_ttl(self) -> None:
        """Raises QueryError: `ttl` is no span of time."""
        if self.ttl is not None:
            check_span(self.ttl, "ttl", "/ttl")

    @property
    def keeps_time(self) -> bool:
        return True

    @property
    def origins(self) -> Origins:
        return Origins.KEPT

    @property
    def repeats(self) -> bool:
        return False

    @property
    def row_order(self) -> Order:
        return Order.SEQUENTIAL

    def reads_origins(self, times: Collection[str]) -> bool:
        return True

    def grain(self, below: int) -> int:
        return 1

    @property
    def windows(self) -> Mapping[str, PanedWindow | SizeWindow]:
        return {}


@dataclass(frozen=True)
class Deduplicate(InTurn):
    """The first in stream order of the tuples with equal `by`, and the next that is more than `ttl` µs after it, and so on."""

    name: str
    input: str
    by: tuple[str, ...]
    ttl: int | None

    def __post_init__(self) -> None:
        check_fields(self)
        self.check_ttl()
        if not self.by:
            raise QueryError(f"operator {self.name!r}: expected at least one column by which tuples are the same", "/by")

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"input": TEXT, "by": BY, "ttl": optional(SPAN)}

    def explained(self) -> str:
        return f"deduplicate{phrases.by(self.by)}{'' if self.ttl is None else ', ttl ' + format_duration(self.ttl)}"

    def output_schema(self, *inputs: Schema) -> Schema:
        check_columns(self.name, "by", self.by, inputs[0])
        return inputs[0]

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return {*self.by, *wanted(names)}

    def passes(self, column: str) -> tuple[str, ...] | None:
        return (column,)
