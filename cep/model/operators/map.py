"""One tuple per tuple, computed from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from cep.errors import QueryError
from cep.model.contract import phrases
from cep.model.contract.columns import computed, read_by, schema_of
from cep.model.contract.forms import FIELDS, FLAG, TEXT, Form
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
    """One tuple per tuple: `fields` are (name, expression) in output order. Event time stays.

    `keep_others`: all columns come out, in their order, those that `fields` name as they say, and what is new behind them.
    """

    name: str
    input: str
    fields: Fields
    keep_others: bool = False

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"input": TEXT, "fields": FIELDS, "keep_others": FLAG}

    def explained(self) -> str:
        return f"map to {'all columns with ' * self.keep_others}{phrases.fields(self.fields)}"

    def over(self, names: Iterable[str]) -> Fields:
        """All that comes out of an input with the columns `names`."""
        if not self.keep_others:
            return self.fields
        return tuple(({name: ColumnRef(name) for name in names} | dict(self.fields)).items())

    def output_schema(self, *inputs: Schema) -> Schema:
        made = super().output_schema(*inputs)
        if not self.keep_others:
            return made
        fields = {**inputs[0].by_name, **made.by_name}
        return schema_of(self.name, tuple(fields.values()), "/fields")

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        own = super().reads(port, names, wanted)
        return {*own, *wanted(name for name in names if name not in dict(self.fields))} if self.keep_others else own

    def passes(self, column: str) -> tuple[str, ...] | None:
        return (column,) if self.keep_others and column not in dict(self.fields) else super().passes(column)

    @property
    def origins(self) -> Origins:
        return Origins.KEPT
