"""What Spark cannot express, or not with equal answers. It is said before anything starts; docs/spark.md has this table."""

from __future__ import annotations

from collections.abc import Iterator

from cep.errors import QueryError
from cep.model import sinks, streams
from cep.model.functions import UserFunction
from cep.model.operators import (
    Aggregate,
    Apply,
    AsOfJoin,
    Deduplicate,
    IntervalJoin,
    Lookup,
    Operator,
    Over,
    Pattern,
    Sample,
    SampleN,
    Sort,
    StatefulMap,
    Zip,
)
from cep.model.query import Query
from cep.model.windows import CumulateWindow, SizeWindow, TransactionWindow, UnboundedWindow

_IN_ORDER = "Spark takes the rows of a group as they come, not in the order of event time"
_ALONE = "Spark gives out changes of state only where nothing else in the query keeps state"
_NO_ORIGIN = "Spark numbers the rows of a stream otherwise, so it would choose others"
_RUNNING = "an answer per tuple, or a Deduplicate, with other state on its way"
#: Of what the engine has and this folder does not, though Spark could: a function that was added to the engine alone.
NO_EQUAL = "nothing equal has been written for it there"

#: What is refused -> why. Expressions have a table of their own, `driver.spark.expressions.expression.REFUSED_EXPRESSIONS`.
REFUSED: dict[str, str] = {
    "a window of a number of rows (SIZE)": _IN_ORDER,
    "a CUMULATE window": "Spark's windows have one length, and a row of one may not come out several times from one state",
    "a TRANSACTION window": _IN_ORDER,
    "a periodic UNBOUNDED window": "Spark fires for windows, not for all there has been up to an instant",
    "an UNBOUNDED window with a ttl": _IN_ORDER,
    _RUNNING: _ALONE,
    "Deduplicate with a ttl": "Spark counts the time from when it met a row, not from event time",
    "Sort without a window": "Spark's streams have no order",
    "Sort over a SIZE window": _IN_ORDER,
    "Lookup with refresh": "Spark reads a table once, when the query begins",
    "Lookup with versions": NO_EQUAL,
    "StatefulMap": _IN_ORDER,
    "Pattern": "Spark's streams have no MATCH_RECOGNIZE, and take the rows of a group as they come, not in the order of event time",
    "Over": "Spark takes windows over rows (rangeBetween, rowsBetween, lag) of data that have an end, not of streams",
    "AsOfJoin": "Spark has no such join of two streams",
    "Zip": "Spark's streams have no order",
    "Sample": _NO_ORIGIN,
    "SampleN": _NO_ORIGIN,
    "IntervalJoin": "Spark's watermark has whole milliseconds, and rows at the edge of an interval would be lost",
    "Apply": "Spark would call the function in Python processes of its own, where a row that fails ends the query",
    "a user's aggregate function": "Spark has none over a stream that know the order of their rows",
    "a late stream": "Spark drops late rows without a trace",
    "a source without event time": "Spark reads files and has no instant at which a row of one came",
    "a source of files that are no text": "Spark would read them by rules of its own",
    "an output to files that are neither text nor Arrow": "Spark would write them by rules of its own",
    "replicas": "Spark places its tasks itself",
}


class Refused(QueryError):
    """Yours: the query is sound, but not for Spark. `what` is the key of the table, or the name of a function that nothing was written for;
    `operator` is the name of what has it."""

    def __init__(self, what: str, why: str, operator: str = "", pointer: str = "") -> None:
        where = f"operator {operator!r}: " if operator else ""
        super().__init__(f"{where}{what} does not run on Spark: {why}", pointer)
        self.what, self.why, self.operator = what, why, operator

    def at(self, operator: str, pointer: str) -> Refused:
        """The same, said of a place: `pointer` leads to it, the error's own on from there."""
        return Refused(self.what, self.why, operator, pointer + self.pointer)


def check_for_spark(query: Query) -> None:
    """Raises Refused for the first operator that Spark cannot run, its expressions aside. `query` is as written."""
    for what, name, pointer in _found(query):
        raise Refused(what, REFUSED[what], name, pointer)


def is_updating(operator: Operator) -> bool:
    """Does it give out an answer anew whenever a row changes it? On Spark these are answers per tuple and Deduplicate."""
    return isinstance(operator, Deduplicate) or (isinstance(operator, Aggregate) and isinstance(operator.window, UnboundedWindow))


def above(query: Query, name: str) -> Iterator[Operator]:
    """The operators on the ways to `name`, its own among them, each once."""
    makers = {made: operator for operator in query.operators for made in operator.branches}
    waiting, seen = [name], set()
    while waiting:
        operator = makers.get(waiting.pop())
        if operator is not None and operator.name not in seen:
            seen.add(operator.name)
            waiting += operator.inputs
            yield operator


def _found(query: Query) -> Iterator[tuple[str, str, str]]:
    """(what, operator, pointer) of everything that is refused."""
    if query.late is not None:
        yield "a late stream", "", "/late"
    if query.options.replicas > 1:
        yield "replicas", "", "/options/replicas"
    for i, stream in enumerate(query.streams):
        if stream.event_time is None and stream.files is not None:
            yield "a source without event time", "", f"/streams/{i}"
        if stream.files is not None and not isinstance(stream.files, streams.TextFiles):
            yield "a source of files that are no text", "", f"/streams/{i}/files/format"
    for i, operator in enumerate(query.operators):
        for what in _of_operator(operator):
            yield what, operator.name, f"/operators/{i}"
    for i, output in enumerate(query.outputs):
        if output.files is not None and not isinstance(output.files, sinks.TextSink | sinks.ArrowSink):
            yield "an output to files that are neither text nor Arrow", "", f"/outputs/{i}/files/format"
        stateful = [operator for operator in above(query, output.input) if operator.stateful]
        for operator in filter(is_updating, stateful):
            if len(stateful) > 1:
                yield _RUNNING, operator.name, f"/outputs/{i}"


def _of_operator(operator: Operator) -> Iterator[str]:
    match operator:
        case Aggregate(window=SizeWindow()):
            yield "a window of a number of rows (SIZE)"
        case Aggregate(window=CumulateWindow()):
            yield "a CUMULATE window"
        case Aggregate(window=TransactionWindow()):
            yield "a TRANSACTION window"
        case Aggregate(window=UnboundedWindow(advance=int())):
            yield "a periodic UNBOUNDED window"
        case Aggregate(window=UnboundedWindow(ttl=int())):
            yield "an UNBOUNDED window with a ttl"
        case Deduplicate(ttl=int()):
            yield "Deduplicate with a ttl"
        case Sort(window=None):
            yield "Sort without a window"
        case Sort(window=SizeWindow()):
            yield "Sort over a SIZE window"
        case Lookup(refresh=int()):
            yield "Lookup with refresh"
        case Lookup(versions=str()):
            yield "Lookup with versions"
        case StatefulMap() | Pattern() | Over() | AsOfJoin() | Zip() | Sample() | SampleN() | IntervalJoin() | Apply():
            yield type(operator).__name__
    if isinstance(operator, Aggregate) and any(isinstance(function, UserFunction) for _, function in operator.functions):
        yield "a user's aggregate function"
