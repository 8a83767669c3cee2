"""A user's function over batches."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cep.errors import QueryError
from cep.model.checked import check_fields
from cep.model.contract.columns import check_columns
from cep.model.contract.forms import NAMES, SCHEMA, TEXT, Form
from cep.model.contract.operator import OneInput, Origins, Stateless, Wanted
from cep.model.references import split_reference
from cep.model.schema import Schema


@dataclass(frozen=True)
class Apply(Stateless, OneInput):
    """A user's function over batches: `function` ("module:name") gets an Arrow RecordBatch of `columns` and returns one of
    `schema` with as many rows, or with a column `__row` that says of which row each is made."""

    name: str
    input: str
    function: str
    columns: tuple[str, ...]
    schema: Schema

    def __post_init__(self) -> None:
        check_fields(self)
        split_reference(self.function, "/function")
        if not self.columns:
            raise QueryError(f"operator {self.name!r}: expected at least one column for the function", "/columns")

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"input": TEXT, "function": TEXT, "columns": NAMES, "schema": SCHEMA}

    def explained(self) -> str:
        return f"apply {self.function} to batches of {', '.join(self.columns)}"

    def output_schema(self, *inputs: Schema) -> Schema:
        check_columns(self.name, "columns", self.columns, inputs[0])
        return self.schema

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return self.columns

    def passes(self, column: str) -> tuple[str, ...] | None:
        return None

    @property
    def keeps_time(self) -> bool:
        return True

    @property
    def origins(self) -> Origins:
        return Origins.NUMBERED

    @property
    def files(self) -> tuple[str, ...]:
        return ()
