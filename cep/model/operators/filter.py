"""Some of the tuples."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cep.model.contract.columns import checked_condition
from cep.model.contract.forms import EXPRESSION, TEXT, Form
from cep.model.contract.operator import OneInput, Origins, Stateless, Wanted
from cep.model.expr import Expr, columns_of
from cep.model.schema import Schema
from cep.model.types import text_of


class Choosing(Stateless, OneInput):
    """It lets some of its tuples through, as they are."""

    def passes(self, column: str) -> tuple[str, ...] | None:
        return (column,)

    @property
    def keeps_time(self) -> bool:
        return True

    @property
    def origins(self) -> Origins:
        return Origins.KEPT

    @property
    def files(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class Filter(Choosing):
    """The tuples for which `condition` is true (not false, not NULL)."""

    name: str
    input: str
    condition: Expr

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"input": TEXT, "condition": EXPRESSION}

    def explained(self) -> str:
        return f"filter {text_of(self.condition)}"

    def output_schema(self, *inputs: Schema) -> Schema:
        return checked_condition(self.name, inputs[0], "condition", self.condition)

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return {*columns_of(self.condition), *wanted(names)}
