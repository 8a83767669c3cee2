"""Several tuples per tuple: one for each element of a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cep.errors import QueryError, escaped, meant
from cep.model.contract import phrases
from cep.model.contract.forms import FIELDS, TEXT, Form
from cep.model.contract.operator import Fields, Origins
from cep.model.operators.map import Computing
from cep.model.schema import Field, Schema
from cep.model.types import listing


@dataclass(frozen=True)
class FlatMap(Computing):
    """As Map, and then one tuple for each element of the list in field `explode`, which becomes the element; none for NULL."""

    name: str
    input: str
    fields: Fields
    explode: str

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"input": TEXT, "fields": FIELDS, "explode": TEXT}

    def explained(self) -> str:
        return f"flat map to {phrases.fields(self.fields)}, a tuple for each element of {self.explode}"

    def output_schema(self, *inputs: Schema) -> Schema:
        made = super().output_schema(*inputs)
        if self.explode not in made:
            there = f"{meant(self.explode, made.names)}; there {listing(made.names)}"
            raise QueryError(f"operator {self.name!r}, explode: no field {self.explode!r}{there}", "/explode")
        exploded = made[self.explode].type
        element = exploded.element
        if element is None:
            message = f"operator {self.name!r}: field {self.explode!r} is exploded: expected a list, got {exploded}"
            raise QueryError(message, f"/fields/{escaped(self.explode)}")
        return Schema(tuple(Field(f.name, element, True) if f.name == self.explode else f for f in made.fields))

    def passes(self, column: str) -> tuple[str, ...] | None:
        return None if column == self.explode else super().passes(column)

    @property
    def origins(self) -> Origins:
        return Origins.NUMBERED
