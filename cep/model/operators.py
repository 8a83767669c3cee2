"""The operators of a query, one frozen value each (DESIGN 5.2; what each yields, when and in which order: docs/SEMANTICS.md).

`inputs` name operators, branches of a Demux (`demux.branch`) or streams. Times and spans of time are µs.
"""

from __future__ import annotations

from dataclasses import dataclass

from cep.errors import QueryError
from cep.model.checked import Checked, check
from cep.model.expr import Expr, Literal
from cep.model.functions import Function, Order
from cep.model.limits import KEY_FIELDS_MAX
from cep.model.references import split_reference
from cep.model.schema import Schema
from cep.model.tables import StaticTable
from cep.model.windows import SizeWindow, TimeWindow, TransactionWindow, Window, check_span

Fields = tuple[tuple[str, Expr], ...]
Pairs = tuple[tuple[str, str], ...]
"""(column of the left input, column of the right one): equal in every joined row."""

JOINS = ("inner", "left", "right", "full")


class _OneInput(Checked):
    __slots__ = ()
    input: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


class _TwoInputs(Checked):
    __slots__ = ()
    left: str
    right: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.left, self.right)


# --- stateless -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Map(_OneInput):
    """One tuple per tuple: `fields` are (name, expression) in output order. Event time stays."""

    name: str
    input: str
    fields: Fields


@dataclass(frozen=True)
class Filter(_OneInput):
    """The tuples for which `condition` is true (not false, not NULL)."""

    name: str
    input: str
    condition: Expr


@dataclass(frozen=True)
class Union(Checked):
    """The tuples of all inputs, whose schemas are the same."""

    name: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Demux(_OneInput):
    """A branch for each of `cases` (branch, condition): every tuple goes into every branch whose condition is true, and into
    `otherwise`, if there is one, where none is. Readers name a branch `name.branch`."""

    name: str
    input: str
    cases: Fields
    otherwise: str | None = None

    def __post_init__(self) -> None:
        check(self)
        if not self.cases:
            raise QueryError(f"operator {self.name!r}: a demux needs at least one case", "/cases")

    @property
    def branches(self) -> tuple[str, ...]:
        found = [branch for branch, _ in self.cases] + ([] if self.otherwise is None else [self.otherwise])
        return tuple(f"{self.name}.{branch}" for branch in found)


@dataclass(frozen=True)
class FlatMap(_OneInput):
    """As Map, and then one tuple for each element of the list in field `explode`, which becomes the element; none for NULL."""

    name: str
    input: str
    fields: Fields
    explode: str


@dataclass(frozen=True)
class Apply(_OneInput):
    """A user's function over batches: `function` ("module:name") gets an Arrow RecordBatch of `columns` and returns one of
    `schema` with as many rows, or with a column `__row` that says of which row each is made."""

    name: str
    input: str
    function: str
    columns: tuple[str, ...]
    schema: Schema

    def __post_init__(self) -> None:
        check(self)
        split_reference(self.function, "/function")
        if not self.columns:
            raise QueryError(f"operator {self.name!r}: expected at least one column for the function", "/columns")


@dataclass(frozen=True)
class Delay(_OneInput):
    """The same tuples, `by` µs later in event time."""

    name: str
    input: str
    by: int

    def __post_init__(self) -> None:
        check(self)
        check_span(self.by, "delay", "/by")


@dataclass(frozen=True)
class Lookup(_OneInput):
    """Every tuple with every row of a static table where the pairs `on` are equal; `how` inner or left."""

    name: str
    input: str
    table: StaticTable
    on: Pairs
    how: str = "inner"
    prefix: str = ""

    def __post_init__(self) -> None:
        check(self)
        _check_join(self.name, self.how, self.on, ("inner", "left"))


# --- stateful --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Aggregate(_OneInput):
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
        check(self)
        if self.emit_partial and not isinstance(self.window, SizeWindow | TransactionWindow):
            raise QueryError(f"operator {self.name!r}: emit_partial is for SIZE and TRANSACTION windows", "/emit_partial")


@dataclass(frozen=True)
class Join(_TwoInputs):
    """Window join: pairs of tuples that lie in the windows `[e - size, e)` of their inputs, for every e = k·advance, in which the
    pairs `on` are equal and `condition`, over the joined tuple, is true. Event time e - 1.

    Columns: those of the left, then those of the right with `prefix` before their names, without the right column of a pair of
    the same name. Without `on` (a theta join) the tuples of the side `broadcast` go to every instance.
    """

    name: str
    left: str
    right: str
    window: TimeWindow
    right_window: TimeWindow
    on: Pairs = ()
    how: str = "inner"
    condition: Expr | None = None
    prefix: str = ""
    broadcast: str = "right"

    def __post_init__(self) -> None:
        check(self)
        _check_join(self.name, self.how, self.on, JOINS)
        if self.window.advance != self.right_window.advance:
            raise QueryError(
                f"operator {self.name!r}: both windows of a join have one advance, got {self.window.advance} and "
                f"{self.right_window.advance} µs",
                "/right_window/advance",
            )
        if self.broadcast not in ("left", "right"):
            raise QueryError(f"operator {self.name!r}: broadcast: expected 'left' or 'right', got {self.broadcast!r}", "/broadcast")
        if not self.on and self.how == self.broadcast:
            raise QueryError(
                f"operator {self.name!r}: in a {self.how} theta join the {self.how} side is shared out, so that each instance knows "
                f"which of its tuples are unmatched; broadcast the other one",
                "/broadcast",
            )


@dataclass(frozen=True)
class IntervalJoin(_TwoInputs):
    """Pairs in which the right tuple's event time is from `lower` to `upper` µs (both included) after the left one's."""

    name: str
    left: str
    right: str
    lower: int
    upper: int
    on: Pairs
    how: str = "inner"
    condition: Expr | None = None
    prefix: str = ""

    def __post_init__(self) -> None:
        check(self)
        _check_join(self.name, self.how, self.on, JOINS)
        for key in ("lower", "upper"):
            check_span(abs(getattr(self, key)) or 1, key, f"/{key}")
        if self.lower > self.upper:
            message = f"operator {self.name!r}: lower: expected at most upper ({self.upper} µs), got {self.lower} µs"
            raise QueryError(message, "/lower")


@dataclass(frozen=True)
class AsOfJoin(_TwoInputs):
    """Every left tuple with the last right one, in stream order, whose event time is at most its own (and at most `tolerance` µs
    before it, if given); `how` inner or left."""

    name: str
    left: str
    right: str
    on: Pairs
    how: str = "inner"
    tolerance: int | None = None
    prefix: str = ""

    def __post_init__(self) -> None:
        check(self)
        _check_join(self.name, self.how, self.on, ("inner", "left"))
        if self.tolerance is not None:
            check_span(self.tolerance, "tolerance", "/tolerance")


@dataclass(frozen=True)
class Sort(_OneInput):
    """The tuples of each window and group in the order of `order`, (column, descending), with their `rank` from 1, at event time
    window end - 1. Without a window: the tuples in stream order, unchanged."""

    name: str
    input: str
    window: TimeWindow | None = None
    by: tuple[str, ...] = ()
    order: tuple[tuple[str, bool], ...] = ()
    rank: str = "rank"

    def __post_init__(self) -> None:
        check(self)
        if self.window is None and (self.by or self.order):
            raise QueryError(f"operator {self.name!r}: a sort without a window is by event time, and has neither by nor order", "/window")
        if self.window is not None and not self.order:
            raise QueryError(f"operator {self.name!r}: expected at least one column to order by", "/order")


@dataclass(frozen=True)
class TopN(_OneInput):
    """The first `n` tuples of what Sort yields."""

    name: str
    input: str
    window: TimeWindow
    by: tuple[str, ...]
    order: tuple[tuple[str, bool], ...]
    n: int
    rank: str = "rank"

    def __post_init__(self) -> None:
        check(self)
        if not 0 < self.n <= 1_000_000:
            raise QueryError(f"operator {self.name!r}: n: expected 1 to 1000000, got {self.n}", "/n")
        if not self.order:
            raise QueryError(f"operator {self.name!r}: expected at least one column to order by", "/order")


@dataclass(frozen=True)
class Deduplicate(_OneInput):
    """Of the tuples with equal `by` the first in stream order, and the next that is more than `ttl` µs after it, and so on."""

    name: str
    input: str
    by: tuple[str, ...]
    ttl: int | None

    def __post_init__(self) -> None:
        check(self)
        _check_ttl(self.ttl)
        if not self.by:
            raise QueryError(f"operator {self.name!r}: expected at least one column by which tuples are the same", "/by")


@dataclass(frozen=True)
class StatefulMap(_OneInput):
    """One tuple per tuple, computed from it and from the state of its group, which it changes first; in stream order.

    With `state` (name, what it begins with), `update` and `fields` are expressions over the tuple's columns and the state:
    `update` before the change, all at once, `fields` after it. With `function` ("module:name") a user's
    `function(state, *columns)`, state None at first, returns (state, values of `schema`, or None for no tuple).
    A group that no tuple touched for more than `ttl` µs begins anew.
    """

    name: str
    input: str
    by: tuple[str, ...]
    ttl: int | None
    state: tuple[tuple[str, Literal], ...] = ()
    update: Fields = ()
    fields: Fields = ()
    function: str | None = None
    columns: tuple[str, ...] = ()
    schema: Schema | None = None

    def __post_init__(self) -> None:
        check(self)
        _check_ttl(self.ttl)
        if bool(self.state) == (self.function is not None):
            raise QueryError(f"operator {self.name!r}: expected either state, update and fields, or a function")
        if self.function is not None:
            split_reference(self.function, "/function")
        if (self.schema is None) != (self.function is None):
            raise QueryError(f"operator {self.name!r}: expected a schema beside a function, and nowhere else", "/schema")
        if tuple(name for name, _ in self.update) != tuple(name for name, _ in self.state):
            raise QueryError(f"operator {self.name!r}: update: expected an expression for each of the state's names, in order", "/update")


Operator = (
    Map
    | Filter
    | Union
    | Demux
    | FlatMap
    | Apply
    | Delay
    | Lookup
    | Aggregate
    | Join
    | IntervalJoin
    | AsOfJoin
    | Sort
    | TopN
    | Deduplicate
    | StatefulMap
)
STATEFUL = (Aggregate, Join, IntervalJoin, AsOfJoin, Sort, TopN, Deduplicate, StatefulMap)


def is_stateful(operator: Operator) -> bool:
    """Delay, which the paper's list of stateful operators has, keeps nothing here: it shifts time and watermark alike."""
    return isinstance(operator, STATEFUL)


def is_sequential(operator: Operator) -> bool:
    """Does it take its tuples in stream order, holding them until the watermark has passed (DESIGN 4.6)?"""
    match operator:
        case Sort(window=None) | Deduplicate() | StatefulMap() | AsOfJoin():
            return True
        case Aggregate(window=window):
            periodic = getattr(window, "advance", None) is not None and not isinstance(window, SizeWindow)
            return not periodic or any(function.order is Order.SEQUENTIAL for _, function in operator.functions)
    return False


def _check_join(name: str, how: str, on: Pairs, allowed: tuple[str, ...]) -> None:
    if how not in allowed:
        raise QueryError(f"operator {name!r}: how: expected one of {', '.join(allowed)}, got {how!r}", "/how")
    check_key(name, "on", len(on))
    for i, pair in enumerate(on):
        if pair in on[:i]:
            raise QueryError(f"operator {name!r}: the pair {pair[0]!r} = {pair[1]!r} stands twice", f"/on/{i}")


def check_key(operator: str, field: str, columns: int) -> None:
    """Raises QueryError: more columns than a key may have."""
    if columns > KEY_FIELDS_MAX:
        raise QueryError(f"operator {operator!r}, {field}: expected at most {KEY_FIELDS_MAX} columns of a key, got {columns}", f"/{field}")


def _check_ttl(ttl: int | None) -> None:
    if ttl is not None:
        check_span(ttl, "ttl", "/ttl")
