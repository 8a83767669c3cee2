"""Tuples dealt out to branches: said for short for a Filter each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cep.errors import QueryError, escaped
from cep.model.checked import check_fields
from cep.model.contract import phrases
from cep.model.contract.columns import checked_condition, read_by
from cep.model.contract.forms import FIELDS, TEXT, Form, optional
from cep.model.contract.operator import Fields, Operator, Wanted
from cep.model.expr import Expr, coalesce
from cep.model.operators.filter import Choosing, Filter
from cep.model.schema import Schema


@dataclass(frozen=True)
class Demux(Choosing):
    """A branch for each of `cases` (branch, condition): every tuple goes into every branch whose condition is true, and into
    `otherwise`, if there is one, where none is. Readers name a branch `name.branch`."""

    name: str
    input: str
    cases: Fields
    otherwise: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.cases:
            raise QueryError(f"operator {self.name!r}: a demux needs at least one case", "/cases")

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"input": TEXT, "cases": FIELDS, "otherwise": optional(TEXT)}

    @property
    def branches(self) -> tuple[str, ...]:
        found = [branch for branch, _ in self.cases] + ([] if self.otherwise is None else [self.otherwise])
        return tuple(f"{self.name}.{branch}" for branch in found)

    def in_full(self) -> tuple[Operator, ...]:
        conditions = [condition for _, condition in self.cases]
        given = conditions if self.otherwise is None else [*conditions, _none_of(conditions)]
        return tuple(Filter(branch, self.input, condition) for branch, condition in zip(self.branches, given, strict=True))

    def explained(self) -> str:
        rest = "" if self.otherwise is None else f", otherwise {self.otherwise}"
        return f"demux by {phrases.fields(self.cases)}{rest}"

    def output_schema(self, *inputs: Schema) -> Schema:
        for branch, condition in self.cases:
            checked_condition(self.name, inputs[0], f"cases/{escaped(branch)}", condition)
        return inputs[0]

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return {*read_by(condition for _, condition in self.cases), *wanted(names)}


def _none_of(conditions: list[Expr]) -> Expr:
    known = [coalesce(condition, False) for condition in conditions]
    any_: Expr = known[0]
    for condition in known[1:]:
        any_ = any_ | condition
    return ~any_
