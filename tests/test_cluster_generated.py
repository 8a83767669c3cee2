"""Generated queries in the real cluster: processes, sockets and machine code, and still the reference's answer.

Queries, data and ways to run them are drawn as for the other properties, but from seeds (`tests.strategies.seeded`), which the name
of a test says. `pytest -n0 -m 'long or not long' tests/test_cluster_generated.py -k published-7-2` replays that one alone, and with
`tests/test_properties.py` (files: `tests/test_file_properties.py`) in its place in one process, where it can be debugged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cep import wire
from cep.model.query import Options, Query
from cep.model.streams import Stream
from cep.plan.expand import in_full
from driver import LocalCluster, Publisher, Running
from instance_manager.clients import PARTITION_MASK
from tests import functions_of_users, user_functions
from tests.reference import Answer, Partition, assert_same_answer, blocks
from tests.reference.engine import TimedRow
from tests.running import cuts, expected_of, outputs_of, plan_of, records_of, values_of_array
from tests.strategies import Execution
from tests.strategies.seeded import published, published_cases, read, read_cases
from tests.waiting import until

#: Machine code takes minutes where others compile too.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[LocalCluster]:
    with LocalCluster(instances=2, data=[folder], modules=[user_functions, functions_of_users]) as started:
        yield started


@published_cases()
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


@read_cases()
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
