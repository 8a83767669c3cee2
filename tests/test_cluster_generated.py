"""Generated queries in the real cluster: processes, sockets and machine code, and still the reference's answer.

Queries, data and ways to run them are drawn as for the other properties, but from seeds: the name of a test says which.
`pytest -n0 -m 'long or not long' tests/test_cluster_generated.py -k published-7-2` replays the second data and execution of query 7
alone, and `tests.test_properties.check(*published(7, 2))` in one process, where it can be debugged (files: `read` and
`tests.test_file_properties`). A query is run in two ways at least, since most of the time goes into its machine code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from cep import wire
from cep.model.query import Options, Query
from cep.model.streams import Stream
from cep.plan.expand import in_full
from driver import LocalCluster, Publisher, Running
from instance_manager.clients import PARTITION_MASK
from tests import user_functions
from tests.reference import Answer, Partition, assert_same_answer, blocks
from tests.reference.engine import TimedRow
from tests.running import cuts, expected_of, outputs_of, plan_of, records_of, values_of_array
from tests.strategies import (
    Case,
    Execution,
    FileCase,
    contents_of,
    executions,
    file_queries,
    inputs_of,
    published_queries,
)
from tests.waiting import until

T = TypeVar("T")

OPERATORS_MAX = 3
#: (queries, ways to run each), in CI and, besides, in the long mode.
PUBLISHED, LONG_PUBLISHED = (6, 2), (60, 3)
READ, LONG_READ = (2, 2), (20, 3)


def seeds(name: str, ci: tuple[int, int], long: tuple[int, int]) -> pytest.MarkDecorator:
    """Queries and the ways to run them, both by number."""
    both = [(query, way) for query in range(max(ci[0], long[0])) for way in range(max(ci[1], long[1]))]
    first = {(query, way) for query in range(ci[0]) for way in range(ci[1])}
    marks = {one: () if one in first else (pytest.mark.long,) for one in both}
    return pytest.mark.parametrize(
        ("number", "way"), [pytest.param(*one, marks=marks[one], id="-".join(map(str, (name, *one)))) for one in both]
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[LocalCluster]:
    with LocalCluster(instances=2, data=[folder], modules=[user_functions]) as started:
        yield started


# --- drawing ---------------------------------------------------------------------------------------------------------


def drawn(strategy: SearchStrategy[T], text: str) -> T:
    """The value that the seed `text` gives: Hypothesis's first example is the plainest there is, the second one is random."""
    values: list[T] = []

    @seed(text)
    @settings(max_examples=2, phases=[Phase.generate], database=None)
    @given(strategy)
    def keep(value: T) -> None:
        values.append(value)

    keep()
    return values[-1]


def published(number: int, way: int) -> tuple[Case, Execution]:
    """Streams outlive a query: every one has its own."""
    query = drawn(published_queries(OPERATORS_MAX, names=(f"s{number}", f"r{number}")), str(number))
    inputs, execution = drawn(st.tuples(inputs_of(query), executions()), f"{number}-{way}")
    return Case(query, inputs), execution


def read(number: int, way: int) -> tuple[FileCase, Execution]:
    query = drawn(file_queries(OPERATORS_MAX, f"f{number}-{way}"), str(number))
    files, execution = drawn(st.tuples(contents_of(query), executions()), f"{number}-{way}")
    return FileCase(query, files), execution


# --- running ---------------------------------------------------------------------------------------------------------


@seeds("published", PUBLISHED, LONG_PUBLISHED)
def test_published(cluster: LocalCluster, number: int, way: int) -> None:
    case, execution = published(number, way)
    query = named(case.query, execution, f"q{number}-{way}")
    names = {part.index: f"p{number}-{way}-{part.index}" for parts in case.inputs.values() for part in parts}
    known = {stream: [replace(part, index=partition_number(names[part.index])) for part in parts] for stream, parts in case.inputs.items()}
    parts = [(stream, part) for stream in query.streams for part in case.inputs[stream.name]]
    with answering(cluster, query, expected_of(query, known)):
        publishers = [cluster.publisher(stream.name, names[part.index]) for stream, part in parts]
        with ThreadPoolExecutor(len(parts)) as threads:
            list(threads.map(publish, publishers, *zip(*parts, strict=True), [execution.batch_rows] * len(parts)))


@seeds("read", READ, LONG_READ)
def test_read(cluster: LocalCluster, folder: Path, number: int, way: int) -> None:
    case, execution = read(number, way)
    paths = {path: folder / f"{number}-{way}-{path}" for path in case.files}
    for path, file in paths.items():
        file.write_bytes(case.files[path])
    stream = replace(case.stream, files=replace(case.stream.files, paths=tuple(map(str, paths.values()))))
    files = {stream.name: [(str(file), file.stat().st_size) for file in paths.values()]}
    query = named(replace(case.query, streams=(stream,)), execution, f"q{number}-{way}", files)
    with answering(cluster, query, expected_of(query, {stream.name: blocks(query, stream, case.files)})):
        pass


def named(query: Query, execution: Execution, name: str, files: Mapping[str, Sequence[tuple[str, int]]] | None = None) -> Query:
    """`query` with what of `execution` is sound for it, and with outputs of its own."""
    outputs = tuple(replace(output, stream=f"{name}.{output.stream}") for output in query.outputs)
    late = None if query.late is None else f"{name}.{query.late}"
    options = as_written(query, plan_of(query, execution, files).query.options)
    return replace(query, name=name, outputs=outputs, late=late, options=options)


def as_written(query: Query, options: Options) -> Options:
    """The options of `query` in full, in the words of `query`."""
    full = {operator.name: [each.name for each in in_full(operator)] for operator in query.operators}
    parts = tuple(tuple(name for name, (first, *_) in full.items() if first in part) for part in options.subqueries)
    chosen = dict(options.balancers)
    balancers = {name: {chosen.get(each) for each in names} for name, names in full.items()}
    agreed = tuple((name, each) for name, (each, *others) in balancers.items() if each is not None and not others)
    return replace(options, subqueries=parts, balancers=agreed)


def partition_number(publisher: str) -> int:
    return wire.name_id(publisher) & PARTITION_MASK


def publish(publisher: Publisher, stream: Stream, partition: Partition, batch_rows: Sequence[int]) -> None:
    records = records_of(stream, partition)
    with publisher as out:
        for rows in cuts(len(partition.rows), batch_rows):
            out.send(records[rows])


@contextmanager
def answering(cluster: LocalCluster, query: Query, expected: Answer) -> Iterator[None]:
    """Runs `query`, which has its input when the block is left: everything comes out that is expected, and what is late or bad is
    counted. It is gone after it."""
    running = cluster.deploy(query, start=False)
    try:
        wanted = outputs_of(query, expected)
        found = {name: running.subscribe(name, event_time=True) for name in wanted}
        running.start()
        yield
        assert_same_answer(wanted, {name: list(rows(batches)) for name, batches in found.items()})
        until(lambda: running.status()["state"] == "ended")
        counts = (sum(map(len, expected.late.values())), expected.dead_counts())
        until(lambda: counts == (late_rows(running), Counter(running.dead_letters()["counts"])))
    finally:
        running.delete()


def rows(batches: Iterable[Any]) -> Iterator[TimedRow]:
    """As the reference has them."""
    for batch in batches:
        *columns, times = (values_of_array(column) for column in batch.columns)
        yield from zip(times, zip(*columns, strict=True), strict=True)


def late_rows(running: Running) -> int:
    return sum((placed["metrics"] or {}).get("late", 0) for placed in running.status()["placed"])
