"""Tuples in an order, with their rank."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cep.errors import QueryError
from cep.model.checked import check_fields
from cep.model.contract import phrases
from cep.model.contract.columns import check_columns, schema_of
from cep.model.contract.forms import BOUNDED_WINDOW, BY, FLAG, ORDER, TEXT, Form, optional
from cep.model.contract.operator import Wanted
from cep.model.contract.selecting import Selecting
from cep.model.schema import INT64, Field, Schema
from cep.model.windows import SizeWindow, TimeWindow


class Ranked(Selecting):
    """The tuples of a window and group in an order, and their rank beside them."""

    order: tuple[tuple[str, bool], ...]
    rank: str

    def output_schema(self, *inputs: Schema) -> Schema:
        schema = super().output_schema(*inputs)
        if self.window is None:
            return schema
        check_columns(self.name, "order", tuple(name for name, _ in self.order), schema)
        if self.rank in schema:
            raise QueryError(f"operator {self.name!r}: rank: the input has a column {self.rank!r} already", "/rank")
        return schema_of(self.name, (*schema.fields, Field(self.rank, INT64)), "/rank")

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return {*super().reads(port, names, wanted), *(column for column, _ in self.order)}

    def passes(self, column: str) -> tuple[str, ...] | None:
        return None if column == self.rank and self.window is not None else (column,)


@dataclass(frozen=True)
class Sort(Ranked):
    """The tuples of each window and group in the order of `order`, (column, descending), with their `rank` from 1, at event time
    window end - 1, of a window by rows that of its last tuple. Without a window: the tuples in stream order, unchanged.

    `emit_partial`: windows by rows that are incomplete at the end come out too.
    """

    name: str
    input: str
    window: TimeWindow | SizeWindow | None = None
    by: tuple[str, ...] = ()
    order: tuple[tuple[str, bool], ...] = ()
    rank: str = "rank"
    emit_partial: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.window is None and (self.by or self.order):
            raise QueryError(f"operator {self.name!r}: a sort without a window is by event time, and has neither by nor order", "/window")
        if self.window is not None and not self.order:
            raise QueryError(f"operator {self.name!r}: expected at least one column to order by", "/order")
        if isinstance(self.window, SizeWindow) and self.window.advance < self.window.size:
            raise QueryError(f"operator {self.name!r}: windows by rows do not overlap here", "/window/advance")
        if self.emit_partial and not isinstance(self.window, SizeWindow):
            raise QueryError(f"operator {self.name!r}: emit_partial is for SIZE windows", "/emit_partial")

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"input": TEXT, "window": optional(BOUNDED_WINDOW), "by": BY, "order": ORDER, "rank": TEXT, "emit_partial": FLAG}

    def explained(self) -> str:
        if self.window is None:
            return "sort by event time"
        return f"sort {phrases.window(self.window)}{phrases.by(self.by)} by {phrases.order(self.order)}"
