"""One tuple per tuple, computed from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cep.errors import QueryError
from cep.model.contract import phrases
from cep.model.contract.columns import computed, read_by
from cep.model.contract.forms import FIELDS, TEXT, Form
from cep.model.contract.operator import Fields, OneInput, Origins, Stateless, Wanted
from cep.model.expr import ColumnRef
from cep.model.schema import Schema


class Computing(Stateless, OneInput):
    """Its tuples have the values of expressions, and nothing else of the tuple that they are made of."""

    fields: Fields

    def output_schema(self, *inputs: Schema) -> Schema:
        if not self.fields:
            raise QueryError(f"operator {self.name!r}: a map needs at least one field", "/fields")
        return computed(self.name, "fields", self.fields, inputs[0])

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return read_by(expr for _, expr in self.fields)

    def passes(self, column: str) -> tuple[str, ...] | None:
        expr = dict(self.fields).get(column)
        return (expr.name,) if isinstance(expr, ColumnRef) else None

    @property
    def keeps_time(self) -> bool:
        return True

    @property
    def files(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class Map(Computing):
    """One tuple per tuple: `fields` are (name, expression) in output order. Event time stays."""

    name: str
    input: str
    fields: Fields

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"input": TEXT, "fields": FIELDS}

    def explained(self) -> str:
        return f"map to {phrases.fields(self.fields)}"

    @property
    def origins(self) -> Origins:
        return Origins.KEPT
