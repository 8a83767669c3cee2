"""The tuples of several inputs as one stream."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cep.errors import QueryError
from cep.model.contract.forms import NAMES, Form
from cep.model.contract.operator import Operator, Origins, Stateless, Wanted
from cep.model.schema import Schema


@dataclass(frozen=True)
class Union(Stateless):
    """The tuples of all inputs, whose schemas are the same."""

    name: str
    inputs: tuple[str, ...]

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"inputs": NAMES}

    @property
    def input_keys(self) -> tuple[str, ...]:
        return tuple(f"inputs/{i}" for i in range(len(self.inputs)))

    @property
    def branches(self) -> tuple[str, ...]:
        return (self.name,)

    def in_full(self) -> tuple[Operator, ...]:
        return (self,)

    def explained(self) -> str:
        return "union"

    def output_schema(self, *inputs: Schema) -> Schema:
        where = f"operator {self.name!r}"
        if len(self.inputs) < 2:
            raise QueryError(f"{where}: a union needs at least two inputs, got {len(self.inputs)}", "/inputs")
        for i, (name, schema) in enumerate(zip(self.inputs, inputs, strict=True)):
            if name in self.inputs[:i]:
                raise QueryError(f"{where}: a union reads an input once; {name!r} stands twice", f"/inputs/{i}")
            if schema != inputs[0]:
                raise QueryError(
                    f"{where}: the inputs of a union have one schema; {self.inputs[0]!r} has {inputs[0]}, "
                    f"{name!r} has {schema}; map them to the same fields first",
                    f"/inputs/{i}",
                )
        return inputs[0]

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return wanted(names)

    def passes(self, column: str) -> tuple[str, ...] | None:
        return (column,) * len(self.inputs)

    @property
    def keeps_time(self) -> bool:
        return True

    @property
    def origins(self) -> Origins:
        return Origins.KEPT

    @property
    def files(self) -> tuple[str, ...]:
        return ()
