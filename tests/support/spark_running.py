"""A drawn case run by Spark and by the reference, made comparable (rule 5.8: equal to other engines on data within the disorder bound).

- Late and bad rows are left out: when Spark's watermark moves depends on micro-batches.
- Floats in the data are small multiples of a quarter, so that most sums are exact; what still differs does by n·ε·Σ|x| at most.
- Estimates are asked for as what they estimate, and quantiles as the least and the greatest: their own tests say how near they are.
- Of rows behind an aggregate or a join that tie in event time the columns decide on both sides, since origins there are hashes.
- An answer per tuple is compared after folding to the last of each group.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from cep.model.functions import Function
from cep.model.operators import Aggregate, Operator
from cep.model.query import Query
from cep.model.streams import Stream
from cep.model.windows import UnboundedWindow
from cep.transport import wire
from driver.spark.running import SparkRunning, deploy
from instance_manager.clients.publishers import PARTITION_MASK
from tests.reference import Partition
from tests.reference.engine import Answer, TimedRow, _Run, sources_of
from tests.reference.rows import Row
from tests.reference.schemas import Schema
from tests.reference.source import event_times, read
from tests.reference.values import normal
from tests.support.one_spark import MASTER
from tests.support.running import NOW_US, records_of, values_of_array


def comparable(query: Query) -> Query:
    """`query` without what is compared elsewhere."""
    return replace(query, late=None, operators=tuple(map(_comparable, query.operators)))


def _comparable(operator: Operator) -> Operator:
    if not isinstance(operator, Aggregate):
        return operator
    return replace(operator, functions=tuple((name, _exactly(function)) for name, function in operator.functions))


def _exactly(function: Function) -> Function:
    match function.name:
        case "approx_count_distinct":
            return Function("count_distinct", function.column)
        case "quantile" | "median":
            return Function("quantile", function.column, parameters=(("q", 1 if function.name == "median" else 0),))
    return function


def within_bounds(query: Query, inputs: Mapping[str, Sequence[Partition]]) -> dict[str, list[Partition]]:
    """The rows on time, with tame floats, of publishers whose numbers are those of their names."""
    found = {}
    for number, stream in enumerate(sources_of(query)):
        on_time = {row.origin for row in read(stream, number, inputs[stream.name]).on_time}
        found[stream.name] = [
            Partition(
                wire.name_id(publisher_name(stream, part)) & PARTITION_MASK,
                [tuple(map(_tame, row)) for i, row in enumerate(part.rows) if (number << 48 | part.index, i) in on_time],  # type: ignore[arg-type]
            )
            for part in inputs[stream.name]
        ]
    return found


def publisher_name(stream: Stream, part: Partition) -> str:
    return f"{stream.name}-{part.index}"


def _tame(value: Any) -> Any:
    if isinstance(value, float) and math.isfinite(value):
        return round(math.remainder(value, 1000) * 4) / 4 + 0.0
    return value


# --- the reference ---------------------------------------------------------------------------------------------------


class _Folded(_Run):
    """Answers per tuple are folded to the last of each group, before anything else is made of them."""

    def apply(self, operator: Operator, schemas: list[Schema], inputs: list[list[Row]]) -> list[Row]:
        rows = super().apply(operator, schemas, inputs)
        if isinstance(operator, Aggregate) and isinstance(operator.window, UnboundedWindow):
            rows = list({tuple(map(normal, row.values[: len(operator.by)])): row for row in rows}.values())
        return rows


def expected(query: Query, inputs: Mapping[str, Sequence[Partition]]) -> Answer:
    run = _Folded(query, lambda *_: (), lambda *_: (), NOW_US, {})
    run.read_sources(inputs)
    for output in query.outputs:
        run.answer.outputs.setdefault(output.stream, []).extend((row.time, row.values) for row in run.rows_of(output.input))
    return run.answer


# --- Spark -----------------------------------------------------------------------------------------------------------


def run_on_spark(query: Query, inputs: Mapping[str, Sequence[Partition]], master: str = MASTER) -> dict[str, list[TimedRow]]:
    """Everything is published before it starts. Raises Refused."""
    with deploy(query, master, start=False) as running:
        publish(running, query, inputs)
        answers = {output.stream: running.subscribe(output.stream, event_time=True) for output in query.outputs}
        running.wait()
        return {name: [row for batch in answer for row in _rows(batch)] for name, answer in answers.items()}


def publish(running: SparkRunning, query: Query, inputs: Mapping[str, Sequence[Partition]]) -> None:
    for stream in sources_of(query):
        names = {wire.name_id(f"{stream.name}-{i}") & PARTITION_MASK: f"{stream.name}-{i}" for i in range(16)}
        publishers = [running.publisher(stream.name, names[part.index]) for part in inputs[stream.name]]
        for publisher, part in zip(publishers, inputs[stream.name], strict=True):
            publisher.send(records_of(stream, part))
        for publisher in publishers:
            publisher.close()


def in_order(query: Query, inputs: Mapping[str, Sequence[Partition]]) -> dict[str, list[Partition]]:
    """Every partition's rows in the order of event time."""
    return {
        stream.name: [replace(part, rows=[part.rows[i] for i in _places(stream, part)]) for part in inputs[stream.name]]
        for stream in sources_of(query)
    }


def _places(stream: Stream, part: Partition) -> list[int]:
    times = event_times(stream, part)
    return sorted(range(len(times)), key=lambda i: times[i] or 0)


def run_live(query: Query, inputs: Mapping[str, Sequence[Partition]], steps: int = 4) -> dict[str, list[TimedRow]]:
    """Rows, which stand `in_order`, come in `steps` steps of event time, over all publishers, and Spark takes each before the next. Raises
    Refused."""
    parts = [(stream, part, event_times(stream, part)) for stream in sources_of(query) for part in inputs[stream.name]]
    known = sorted({time for _, _, times in parts for time in times if time is not None})
    limits = [known[len(known) * step // steps] for step in range(1, steps)] if known else []
    with deploy(query, MASTER, start=False) as running:
        answers = {output.stream: running.subscribe(output.stream, event_time=True) for output in query.outputs}
        names = {wire.name_id(name) & PARTITION_MASK: name for stream, _, _ in parts for name in (f"{stream.name}-{i}" for i in range(16))}
        publishers = [running.publisher(stream.name, names[part.index]) for stream, part, _ in parts]
        running.start()
        for low, high in pairwise([-math.inf, *limits, math.inf]):
            for publisher, (stream, part, times) in zip(publishers, parts, strict=True):
                rows = [row for row, time in zip(part.rows, times, strict=True) if time is not None and low <= time < high]
                publisher.send(records_of(stream, replace(part, rows=rows)))
                publisher.flush()
            for output in running.streams.values():
                output.query.processAllAvailable()  # type: ignore[union-attr]  # it has started
        for publisher in publishers:
            publisher.close()
        return {name: [row for batch in answer for row in _rows(batch)] for name, answer in answers.items()}


def _rows(batch: Any) -> list[TimedRow]:
    *columns, times = (values_of_array(column) for column in batch.columns)
    return list(zip(times, zip(*columns, strict=True) if columns else [()] * len(times), strict=True))


# --- comparing -------------------------------------------------------------------------------------------------------


def assert_near(wanted: Mapping[str, list[TimedRow]], found: Mapping[str, list[TimedRow]], scale: float) -> None:
    """The same rows, floats within n·ε·`scale`, the sum of |x|, or of x² where variances are asked for."""
    for name, rows in wanted.items():
        left = Counter(map(_identity, rows)), Counter(map(_identity, found[name]))
        missing, unexpected = list((left[0] - left[1]).elements()), list((left[1] - left[0]).elements())
        unmatched = [row for row in missing if not _take_near(row, unexpected, scale)]
        assert not unmatched and not unexpected, f"stream {name!r}: missing {unmatched!r}, unexpected {unexpected!r}"


def _identity(row: TimedRow) -> Any:
    return row[0], tuple(map(_value, row[1]))


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_value, value))
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0
    return value


def _take_near(row: Any, rows: list[Any], scale: float) -> bool:
    """Takes a row that is as near as that out of `rows`."""
    near = next((other for other in rows if _near(row, other, scale)), None)
    if near is not None:
        rows.remove(near)
    return near is not None


def _near(a: Any, b: Any, scale: float) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_near(x, y, scale) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= 1e-14 * scale + 1e-12 * abs(a)  # Java's functions may be some ulp away from the C library's
    return bool(a == b)


def scale_of(inputs: Mapping[str, Sequence[Partition]]) -> float:
    numbers = [abs(float(v)) for parts in inputs.values() for part in parts for row in part.rows for v in row if _is_number(v)]  # type: ignore[union-attr]
    return sum(n * n + n for n in numbers) + 1.0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
