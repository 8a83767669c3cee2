"""Answers per window and group."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import gcd

from cep.errors import QueryError, escaped, meant
from cep.model.checked import check_fields
from cep.model.contract import phrases
from cep.model.contract.columns import check_columns, checked_condition, read_by, schema_of
from cep.model.contract.forms import BY, FLAG, FUNCTIONS, TEXT, WINDOW, Form
from cep.model.contract.operator import Grouped, Origins, Wanted
from cep.model.functions import FUNCTIONS as KNOWN
from cep.model.functions import OF_OVER, Function, Order, UserFunction, result_field
from cep.model.schema import Field, Schema
from cep.model.types import listing
from cep.model.windows import (
    CumulateWindow,
    PanedWindow,
    SizeWindow,
    TimeWindow,
    TrailingWindow,
    TransactionWindow,
    UnboundedWindow,
    Window,
)

AGGREGATE_YIELD = 0.1
"""Answers for each tuple, as placements guess before anything has run."""


@dataclass(frozen=True)
class Aggregate(Grouped):
    """Per window and per group (`by`, maybe empty): the key fields, then one field per function.

    `emit_partial`: windows by number of rows and transactions that are incomplete at the end come out too.
    """

    name: str
    input: str
    window: Window
    by: tuple[str, ...]
    functions: tuple[tuple[str, Function], ...]
    emit_partial: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.window, TrailingWindow):
            raise QueryError(f"operator {self.name!r}: TRAILING is a window of `over`, which answers every tuple", "/window")
        check_fields(self)
        if self.emit_partial and not isinstance(self.window, SizeWindow | TransactionWindow):
            raise QueryError(f"operator {self.name!r}: emit_partial is for SIZE and TRANSACTION windows", "/emit_partial")

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"input": TEXT, "window": WINDOW, "by": BY, "functions": FUNCTIONS, "emit_partial": FLAG}

    def explained(self) -> str:
        called = ", ".join(f"{name} = {phrases.function(function)}" for name, function in self.functions)
        return f"aggregate {phrases.window(self.window)}{phrases.by(self.by)}: {called}"

    def output_schema(self, *inputs: Schema) -> Schema:
        schema = inputs[0]
        check_columns(self.name, "by", self.by, schema)
        if isinstance(self.window, TransactionWindow):
            for key, condition in (("open", self.window.open), ("close", self.window.close)):
                checked_condition(self.name, schema, f"window/{key}", condition)
        if not self.functions:
            raise QueryError(f"operator {self.name!r}: an aggregate needs at least one function", "/functions")
        results = tuple(self._result(name, function, schema) for name, function in self.functions)
        return schema_of(self.name, tuple(schema[name] for name in self.by) + results, "/functions")

    def _result(self, name: str, function: Function, schema: Schema) -> Field:
        where, pointer = f"operator {self.name!r}, field {name!r}", f"/functions/{escaped(name)}"
        if isinstance(function, UserFunction):
            return _user_result(name, function, schema, where, pointer)
        if function.name in OF_OVER:
            raise QueryError(f"{where}: {function.name} is a function of `over`, which answers every tuple", pointer)
        if function.name in ("window_start", "window_end") and isinstance(self.window, UnboundedWindow) and self.window.advance is None:
            raise QueryError(f"{where}: an UNBOUNDED window with an answer for every tuple has no {function.name}", pointer)
        return result_of(function, name, schema, where, pointer)

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        conditions = [self.window.open, self.window.close] if isinstance(self.window, TransactionWindow) else []
        return {*self.by, *(column for _, function in self.functions for column in function.columns), *read_by(conditions)}

    def passes(self, column: str) -> tuple[str, ...] | None:
        return (column,) if column in self.by else None

    @property
    def keeps_time(self) -> bool:
        return False

    @property
    def origins(self) -> Origins:
        """An answer at the time of the last tuple that contributed has its origin too, so that a group's answers keep their order."""
        running = isinstance(self.window, UnboundedWindow) and self.window.advance is None
        return Origins.KEPT if running or isinstance(self.window, SizeWindow | TransactionWindow) else Origins.HASHED

    @property
    def expected_yield(self) -> float:
        return AGGREGATE_YIELD

    @property
    def repeats(self) -> bool:
        return self.emit_partial

    @property
    def row_order(self) -> Order:
        orders = {function.order for _, function in self.functions}
        if self.period is None or Order.SEQUENTIAL in orders:
            return Order.SEQUENTIAL
        return Order.MERGEABLE if Order.MERGEABLE in orders else Order.COMMUTATIVE

    @property
    def period(self) -> int | None:
        """µs: a window ends, or answers are due, at multiples of it alone. None: when that is depends on the tuples."""
        match self.window:
            case TimeWindow() | CumulateWindow() as window:
                return window.grain
            case UnboundedWindow(advance=advance):
                return advance
        return None

    def reads_origins(self, times: Collection[str]) -> bool:
        """FIRST and LAST of the event time are its least and greatest."""
        if self.row_order is Order.SEQUENTIAL:
            return True
        ordered = [function for _, function in self.functions if function.order is not Order.COMMUTATIVE]
        return any(function.name not in ("first", "last") or function.column not in times for function in ordered)

    def grain(self, below: int) -> int:
        return 1 if self.row_order is Order.SEQUENTIAL else gcd(below, self.period or 0)

    @property
    def windows(self) -> Mapping[str, PanedWindow | SizeWindow]:
        return {"window": self.window} if isinstance(self.window, PanedWindow | SizeWindow) else {}


def result_of(function: Function, name: str, schema: Schema, where: str, pointer: str) -> Field:
    """Field `name`, which `function` yields over columns of `schema`. Raises QueryError: it does not fit them."""
    if KNOWN[function.name] and function.column is None:
        raise QueryError(f"{where}: {function.name} takes one column", pointer)
    for key, given in (("column", function.column), ("by", function.by)):
        if given is not None and given not in schema:
            there = f"{meant(given, schema.names)}; there {listing(schema.names)}"
            raise QueryError(f"{where}: no column {given!r}{there}", f"{pointer}/{key}")
    column, by = (None if given is None else schema[given] for given in (function.column, function.by))
    try:
        return result_field(name, function, column, by)
    except QueryError as error:
        raise QueryError(f"{where}: {error.message}", f"{pointer}{error.pointer or '/column'}") from None


def _user_result(name: str, function: UserFunction, schema: Schema, where: str, pointer: str) -> Field:
    """NULL where it fails, whatever it is declared to return."""
    for i, column in enumerate(function.arguments):
        if column not in schema:
            raise QueryError(
                f"{where}: no column {column!r}{meant(column, schema.names)}; there {listing(schema.names)}", f"{pointer}/columns/{i}"
            )
        if schema[column].type.is_list:
            raise QueryError(
                f"{where}: column {column!r} is a list, which a user's aggregate function does not take", f"{pointer}/columns/{i}"
            )
    return Field(name, function.type, True)
