"""Generated queries in the real cluster: processes, sockets and machine code, and still the reference's answer.

Queries, data and ways to run them are drawn as for the other properties, but from seeds (`tests.strategies.seeded`), which the name
of a test says. `pytest -n0 -m 'long or not long' tests/cluster/test_generated.py -k published-7-2` replays that one alone, and with
`tests/properties/test_properties.py` (files: `tests/properties/test_file_properties.py`) in its place
in one process, where it can be debugged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cep.elements import EVENT_TIME_MAX
from cep.model.query import Query
from cep.model.streams import Stream
from driver import LocalCluster, Publisher
from tests.reference import Answer, Partition, assert_same_answer, blocks
from tests.reference.engine import TimedRow
from tests.strategies.seeded import published, published_cases, read, read_cases
from tests.support.deployed import named, partition_number
from tests.support.running import cuts, expected_of, outputs_of, records_of, values_of_array
from tests.support.waiting import until

#: Machine code takes minutes where others compile too.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


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
        shown = {name: [(min(time, EVENT_TIME_MAX), values) for time, values in each] for name, each in wanted.items()}
        assert_same_answer(shown, {name: list(rows(batches)) for name, batches in found.items()})
        until(lambda: running.status()["state"] == "ended")
        late, dead = sum(map(len, expected.late.values())), expected.dead_counts()
        unused = running.status()["unused"]
        assert (unused["late"], unused["dead_letters"], running.dead_letters()["counts"]) == (late, dead.total(), dict(dead))
    finally:
        running.delete()


def rows(batches: Iterable[Any]) -> Iterator[TimedRow]:
    """As the reference has them, but that no time is behind the end of event time."""
    for batch in batches:
        *columns, times = (values_of_array(column) for column in batch.columns)
        yield from zip((EVENT_TIME_MAX if time is None else time for time in times), zip(*columns, strict=True), strict=True)
