"""Which columns of a stream a query needs: a record is bad only by these (docs/semantics.md, Queries).

What an operator's document names is read, also where the result is not read, so that an answer does not depend on how well a
planner prunes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from cep.model.contract.matching import Conditional, Joining, Matching
from cep.model.expr import Expr, columns_of
from cep.model.functions import Order
from cep.model.operators import (
    Aggregate,
    Apply,
    AsOfJoin,
    Deduplicate,
    Delay,
    Demux,
    Filter,
    FlatMap,
    Join,
    KeepLast,
    Map,
    Operator,
    Over,
    Pattern,
    Sample,
    SampleN,
    Sort,
    StatefulMap,
    TopN,
    Union,
    Zip,
)
from cep.model.query import Query
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.model.windows import CumulateWindow, SessionWindow, TimeWindow, TransactionWindow, UnboundedWindow
from tests.reference.schemas import schemas_of


def needed_columns(query: Query, stream: Stream) -> frozenset[str]:
    """The columns of `stream` that the query needs: its event time's, those that are read, and those that come out.

    All of them, if late rows go to a stream.
    """
    needed = read_columns(query, stream)
    if query.late is not None and stream.event_time is not None:
        needed |= frozenset(stream.schema.names)
    return needed | (frozenset() if stream.event_time is None else columns_of(stream.event_time))


def read_columns(query: Query, stream: Stream) -> frozenset[str]:
    """The columns of `stream` that operators read or that come out."""
    return _needed_of(query, stream.name, schemas_of(query))


def _needed_of(query: Query, name: str, schemas: Mapping[str, Schema]) -> frozenset[str]:
    """The columns of the stream, operator or branch `name` that are needed."""
    everything = frozenset(schemas[name].names)
    if any(output.input == name for output in query.outputs):
        return everything
    needed: frozenset[str] = frozenset()
    for operator in query.operators:
        if name not in operator.inputs:
            continue
        if depends_on_order(operator) and max(_ways(query, name).values()) > 1:
            return everything  # tuples that tie in event time and origin are ordered by all their columns
        needed |= _read_by(operator) | _passed_on(query, operator, name, schemas)
    return needed & everything


def _read_by(operator: Operator) -> frozenset[str]:
    """The columns that the operator's document names; also the state's, which no input has."""
    match operator:
        case Map(fields=fields) | FlatMap(fields=fields) | Demux(cases=fields):
            return _of_all(fields)
        case Filter(condition=condition):
            return columns_of(condition)
        case Apply(columns=columns):
            return frozenset(columns)
        case Aggregate(window=window, by=by, functions=functions):
            conditions = [("", window.open), ("", window.close)] if isinstance(window, TransactionWindow) else []
            return frozenset(by) | {column for _, f in functions for column in f.columns} | _of_all(conditions)
        case Over(by=by, functions=functions):
            return frozenset(by) | {column for _, f in functions for column in f.columns}
        case Sort(by=by, order=order) | TopN(by=by, order=order):
            return frozenset(by) | {column for column, _ in order}
        case Deduplicate(by=by) | KeepLast(by=by) | SampleN(by=by):
            return frozenset(by)
        case StatefulMap(by=by, columns=columns, update=update, fields=fields):
            return frozenset((*by, *columns)) | _of_all((*update, *fields))
        case Pattern(by=by, define=define, measures=measures):
            conditions = [(name, each.condition) for name, each in define if each.condition is not None]
            return frozenset(by) | _of_all(conditions) | _of_all(measures)
    return frozenset()


def _of_all(fields: Iterable[tuple[str, Expr]]) -> frozenset[str]:
    return frozenset().union(*(columns_of(expression) for _, expression in fields))


def _passed_on(query: Query, operator: Operator, name: str, schemas: Mapping[str, Schema]) -> frozenset[str]:
    """The columns of its input `name` that come out of `operator` as they are and are needed there."""
    match operator:
        case Filter() | Union() | Delay() | Sample() | Sort() | TopN() | SampleN() | Deduplicate() | KeepLast() | Over():
            return _needed_of(query, operator.name, schemas)
        case Map(keep_others=True, fields=fields):
            return _needed_of(query, operator.name, schemas) - dict(fields).keys()
        case Pattern():
            whole = [operator.name] * (operator.rows == "all") + [f"{operator.name}.unmatched"] * operator.unmatched
            return frozenset().union(*(_needed_of(query, branch, schemas) for branch in whole))
        case Demux(branches=branches):
            return frozenset().union(*(_needed_of(query, branch, schemas) for branch in branches))
        case Matching():
            sides = [side for side, input_ in enumerate(operator.inputs) if input_ == name]
            return frozenset().union(*(_needed_of_side(query, operator, side, schemas) for side in sides))
    return frozenset()


def _needed_of_side(query: Query, join: Matching, side: int, schemas: Mapping[str, Schema]) -> frozenset[str]:
    """What is compared, what the condition reads of the joined tuple, and what is needed of that."""
    wanted = _needed_of(query, join.name, schemas)
    if isinstance(join, Conditional) and join.condition is not None:
        wanted |= columns_of(join.condition)
    prefix = join.prefix if side else ""
    return frozenset(pair[side] for pair in join.on) | {name.removeprefix(prefix) for name in wanted if name.startswith(prefix)}


def depends_on_order(operator: Operator) -> bool:
    """Does an answer depend on the stream order of tuples?"""
    match operator:
        case Aggregate(window=window, functions=functions):
            spans = isinstance(window, TimeWindow | CumulateWindow) or (isinstance(window, UnboundedWindow) and window.advance is not None)
            return not spans or any(function.order is not Order.COMMUTATIVE for _, function in functions)
    return isinstance(operator, Sort | TopN | SampleN | Deduplicate | KeepLast | Over | StatefulMap | Pattern | AsOfJoin | Zip)


def _ways(query: Query, name: str) -> Counter[str]:
    """Where the origins of the tuples of `name` were made, each with on how many ways one may come from there, if more than one."""
    made = [operator for operator in query.operators if name in operator.branches]
    if not made:
        return Counter([name])
    operator = made[0]
    inputs = [_ways(query, input_) for input_ in operator.inputs]
    match operator:
        case Aggregate(window=TimeWindow() | CumulateWindow() | SessionWindow() | UnboundedWindow(advance=int())):
            return Counter([name])
        case Joining():
            # whichever join it was, pairs of one origin have one, and so do those without a partner
            several = _slides(operator) or any(max(ways.values()) > 1 for ways in inputs)
            sides = [(side, beginning) for side, ways in enumerate(inputs) for beginning in ways]
            return Counter(dict.fromkeys(map(str, sides), 2 if several else 1))
    ways = sum(inputs, Counter[str]())
    return ways + ways if _slides(operator) or (isinstance(operator, Aggregate) and operator.emit_partial) else ways


def _slides(operator: Operator) -> bool:
    """May a tuple or pair come out several times, at the ends of several windows?"""
    match operator:
        case Sort(window=TimeWindow() as window) | TopN(window=window) | SampleN(window=window) | KeepLast(window=window):
            return window.advance < window.size
        case Join(window=window, right_window=other):
            return window.advance < max(window.size, other.size)
    return False
