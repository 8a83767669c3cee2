"""Generated queries in the real cluster: processes, sockets and machine code, and still the reference's answer.

Queries, data and ways to run them are drawn as for the other properties, each case from a seed, which is its test's number.
`pytest -n0 -m 'long or not long' tests/test_cluster_generated.py -k 'published and 17-'` replays that one alone;
`test_properties.check(*published(17))` runs it in one process, where it can be debugged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from cep import wire
from cep.model.query import Query
from cep.model.streams import Stream
from driver import LocalCluster, Publisher, Running, Subscription
from instance_manager.clients import PARTITION_MASK
from tests import user_functions
from tests.reference import Answer, Partition, assert_same_answer, blocks
from tests.reference.equal import TimedRow
from tests.running import cuts, expected_of, outputs_of, plan_of, records_of, values_of_array
from tests.strategies import Case, Execution, FileCase, cases, executions, file_cases
from tests.waiting import until

T = TypeVar("T")

OPERATORS_MAX = 3


def seeds(ordinary: int, long: int) -> pytest.MarkDecorator:
    """That many in CI, and more in the long mode."""
    more = (pytest.param(number, marks=pytest.mark.long) for number in range(ordinary, ordinary + long))
    return pytest.mark.parametrize("number", [*range(ordinary), *more], ids=lambda number: f"seed-{number}-")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[LocalCluster]:
    with LocalCluster(instances=2, data=[folder], modules=[user_functions]) as started:
        yield started


# --- drawing ---------------------------------------------------------------------------------------------------------


def drawn(strategy: SearchStrategy[T], number: int) -> T:
    """The value that seed `number` gives: Hypothesis's first example is the plainest there is, the second one random."""
    values: list[T] = []

    @seed(number)
    @settings(max_examples=2, phases=[Phase.generate], database=None)
    @given(strategy)
    def keep(value: T) -> None:
        values.append(value)

    keep()
    return values[-1]


def published(number: int) -> tuple[Case, Execution]:
    """Its streams are its own: they outlive a query."""
    return drawn(st.tuples(cases(OPERATORS_MAX, names=(f"s{number}", f"r{number}")), executions()), number)


def read(number: int) -> tuple[FileCase, Execution]:
    return drawn(st.tuples(file_cases(OPERATORS_MAX, f"f{number}"), executions()), number)


# --- running ---------------------------------------------------------------------------------------------------------


@seeds(8, 140)
def test_published(cluster: LocalCluster, number: int) -> None:
    case, execution = published(number)
    query = replace(case.query, options=plan_of(case.query, execution).query.options)
    expected = expected_of(query, {name: [as_numbered(part) for part in parts] for name, parts in case.inputs.items()})
    running = cluster.deploy(query, start=False)
    found = subscribed(running, query)
    parts = [(stream, part) for stream in query.streams for part in case.inputs[stream.name]]
    publishers = [cluster.publisher(stream.name, publisher_name(part)) for stream, part in parts]
    running.start()
    with ThreadPoolExecutor(len(parts)) as threads:
        list(threads.map(publish, publishers, *zip(*parts, strict=True), [execution.batch_rows] * len(parts)))
    check(running, query, expected, found)


@seeds(4, 60)
def test_files(cluster: LocalCluster, folder: Path, number: int) -> None:
    case, execution = read(number)
    paths = {name: folder / f"{number}-{name}" for name in case.files}
    for name, path in paths.items():
        path.write_bytes(case.files[name])
    stream = replace(case.stream, files=replace(case.stream.files, paths=tuple(map(str, paths.values()))))
    query = replace(case.query, streams=(stream,))
    sizes = [(str(path), path.stat().st_size) for path in paths.values()]
    query = replace(query, options=plan_of(query, execution, {stream.name: sizes}).query.options)
    expected = expected_of(query, {stream.name: blocks(query, stream, case.files)})
    running = cluster.deploy(query, start=False)
    found = subscribed(running, query)
    running.start()
    check(running, query, expected, found)


def publisher_name(partition: Partition) -> str:
    return f"p{partition.index}"


def as_numbered(partition: Partition) -> Partition:
    """As the cluster does it: by the name of the publisher."""
    return replace(partition, index=wire.name_id(publisher_name(partition)) & PARTITION_MASK)


def publish(publisher: Publisher, stream: Stream, partition: Partition, batch_rows: Sequence[int]) -> None:
    records = records_of(stream, partition)
    with publisher as out:
        for rows in cuts(len(partition.rows), batch_rows):
            out.send(records[rows])


def subscribed(running: Running, query: Query) -> dict[str, Subscription]:
    names = [output.stream for output in query.outputs] + ([] if query.late is None else [query.late])
    return {name: running.subscribe(name, event_time=True) for name in names}


def check(running: Running, query: Query, expected: Answer, found: dict[str, Subscription]) -> None:
    """Everything that came out, and what was late or bad. The query is gone after it."""
    assert_same_answer(outputs_of(query, expected), {name: list(rows(batches)) for name, batches in found.items()})
    until(lambda: running.status()["state"] == "ended")
    wanted = (sum(map(len, expected.late.values())), expected.dead_counts())
    until(lambda: (late_rows(running), Counter(running.dead_letters()["counts"])) == wanted or None)
    running.delete()


def rows(batches: Iterable[Any]) -> Iterator[TimedRow]:
    for batch in batches:
        *columns, times = (values_of_array(column) for column in batch.columns)
        yield from zip(times, zip(*columns, strict=True), strict=True)


def late_rows(running: Running) -> int:
    return sum((placed["metrics"] or {}).get("late", 0) for placed in running.status()["placed"])
