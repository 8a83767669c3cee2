"""Lookups in a table that is read again: against a plain search of the version of each tuple's time, whatever comes first.

watermark      3         12              27             refresh 10
read           v1        v2              v3             a version holds until the next multiple of 10
tuples of   … 9 │ 10 … 19 │ 20 … 29 │
see           v1     v2        v3

Tests `versioned_lookup.py`, `table_versions.py`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from cep.compile.join_rows import LEFT, RIGHT, JoinSpec
from cep.dataflow.joins.matching import SideFormat
from cep.dataflow.movement.owners import everything
from cep.dataflow.operators.context import any_file
from cep.dataflow.operators.operator import Keep
from cep.dataflow.operators.table_versions import TableFile, TableVersionsOperator
from cep.dataflow.operators.versioned_lookup import VersionedLookupOperator
from cep.elements import MAX_TIME, MIN_TIME, Batch
from cep.errors import DataError, QueryError, StateLimitExceeded
from cep.kernels.columns import Columns
from cep.kernels.jit import interpreted
from cep.kernels.join import NO_NULLS, KeyIndex
from cep.kernels.tables.keys import Keys
from cep.model.expr import col
from cep.model.operators import Lookup, TableVersions, VersionedLookup
from cep.model.query import Options
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.model.tables import StaticTable
from cep.transport.wire import Format
from cep.world.store import DiskStore
from numa_cep import testing
from tests.reference import Partition, assert_same_answer
from tests.reference.engine import TimedRow
from tests.reference.tables import END, Versions
from tests.support import changing_files
from tests.support.joining import batch_of, execution, query, ran, rows, sides
from tests.support.pausing import without_pauses
from tests.support.running import expected_of

REFRESH = 10
SCHEMA = Schema.of({"k": "int64", "n": "int64"})
LEFT_STREAM = sides(random.Random(0)).left
Content = list[tuple[int, int]]


def write(path: Path, content: Content) -> None:
    """As the page says: a new file beside the old one, and renamed."""
    table = pa.table({name: pa.array([row[i] for row in content], pa.int64()) for i, name in enumerate(("k", "n"))})
    new = path.with_suffix(f".new{path.suffix}")
    put(table, new)
    os.replace(new, path)


def put(table: pa.Table, path: Path) -> None:
    match path.suffix:
        case ".csv":
            pa.csv.write_csv(table, path)
        case ".arrow":
            pa.feather.write_feather(table, str(path), "uncompressed")
        case _:
            pa.parquet.write_table(table, path)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3] if path.suffix == ".parquet" else b"k,n\n1,")


def other_columns(path: Path) -> None:
    write(path, [(1, 2)])
    put(pa.table({"k": [1], "m": [1]}), path)


def other_types(path: Path) -> None:
    put(pa.table({"k": ["a"], "n": [1]}), path)


def a_column_twice(path: Path) -> None:
    """Before, a KeyError ended the query, and of CSV the first one was taken."""
    put(pa.Table.from_arrays([pa.array([1]), pa.array([10]), pa.array([20])], names=["k", "n", "n"]), path)


def a_name_that_is_no_text(path: Path) -> None:
    """Before, a UnicodeDecodeError ended the query."""
    put(pa.table({"k": [1], "n": [10], "QQQQQQQQ": [1]}), path)
    path.write_bytes(path.read_bytes().replace(b"QQQQQQQQ", b"\xff\xfeQQQQQQ"))


def a_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


BREAKS: dict[str, Callable[[Path], None]] = {
    "gone": lambda path: path.unlink(),
    "cut off": cut_off,
    "other columns": other_columns,
    "other types": other_types,
    "a folder": a_folder,
    "a column twice": a_column_twice,
    "a name that is no text": a_name_that_is_no_text,
}


@dataclass
class Parts:
    """The operators of one lookup, made by hand."""

    table: TableVersions
    lookup: VersionedLookup

    @staticmethod
    def of(path: Path, how: str = "left", by: str = "event_time") -> Parts:
        described = Lookup("j", "l", StaticTable(SCHEMA, str(path)), (("k", "k"),), how, "", None, REFRESH, by)
        _, table, lookup = described.in_full()
        assert isinstance(table, TableVersions) and isinstance(lookup, VersionedLookup)
        return Parts(table, lookup)

    @property
    def format(self) -> Format:
        return Format(self.table.output_schema())

    def reader(self, check: Callable[[str], object] = any_file, clock: Callable[[], int] = lambda: 0) -> TableVersionsOperator:
        return TableVersionsOperator(self.table, self.format, False, TableFile(self.table, DiskStore(), check), clock, 1 << 40)

    def instance(self, limit: int = 1 << 40) -> VersionedLookupOperator:
        left = LEFT_STREAM.schema
        spec = JoinSpec.of(self.lookup, left, SCHEMA, self.lookup.joined_schema(left, SCHEMA).names, False)
        return VersionedLookupOperator(self.lookup, spec, SideFormat("held", 0, left, 2), self.format, limit)

    def answers(self, out: Sequence[Batch]) -> list[TimedRow]:
        return list(rows(list(without_pauses(out)), self.lookup.joined_schema(LEFT_STREAM.schema, SCHEMA)))


def deployed(parts: Parts, **how: Any) -> TableVersionsOperator:
    reader = parts.reader(**how)
    reader.read_first()
    return reader


def tuples(drawn: Sequence[tuple[int, int, int]]) -> Batch:
    return batch_of(LEFT_STREAM, drawn)


def searched(drawn: Sequence[tuple[int, int, int]], versions: Sequence[tuple[int, Content]], how: str = "left") -> list[TimedRow]:
    """`versions`: (until, rows), oldest first."""
    found: list[TimedRow] = []
    for t, k, a in drawn:
        content = next(rows for until, rows in versions if t < until)
        numbers: list[int | None] = [n for other, n in content if other == k]
        found += [(t, (t, k, a, n)) for n in numbers or ([None] if how == "left" else [])]
    return found


# --- any order, any number of instances ------------------------------------------------------------------------------


@dataclass
class Story:
    """What the reader let out at each watermark, while the file was replaced or broken; and which rows hold until when."""

    steps: list[tuple[int, list[Batch]]]
    versions: list[tuple[int, Content]]


def story(choose: random.Random, path: Path) -> Story:
    in_use = content_of(choose, 0)
    write(path, in_use)
    reader, told, until = deployed(Parts.of(path)), Story([], []), MIN_TIME
    there: Content | None = in_use  # what can be read
    watermarks = sorted({choose.randint(-30, 90) for _ in range(choose.randint(1, 8))})
    for number, watermark in enumerate([*watermarks, MAX_TIME], 1):
        if choose.random() < 0.5:
            there = content_of(choose, 100 * number)
            if path.is_dir():
                path.rmdir()
            write(path, there)
        elif there is not None and choose.random() < 0.4:
            BREAKS[choose.choice(list(BREAKS))](path)
            there = None
        if watermark >= until:
            in_use = in_use if there is None else there
            until = MAX_TIME if watermark == MAX_TIME else (watermark // REFRESH + 1) * REFRESH
            told.versions.append((until, in_use))
        told.steps.append((watermark, list(reader.on_watermark(watermark))))
        assert bool(reader.notes) == (there is None) or watermark < until
    return told


def content_of(choose: random.Random, first: int) -> Content:
    return [(choose.randint(1, 3), first + n) for n in range(choose.randint(0, 5))]


class Sender:
    """A channel to one instance: elements in order, batches cut anew."""

    def __init__(self, choose: random.Random, elements: Sequence[Batch | int]) -> None:
        self.elements = [each for element in elements for each in (_cut(choose, element) if isinstance(element, Batch) else [element])]
        self.watermark = MIN_TIME

    def feed(self, operator: VersionedLookupOperator, port: int) -> Iterator[Batch]:
        element = self.elements.pop(0)
        if isinstance(element, Batch):
            yield from without_pauses(operator.on_batch(element, port))
        else:
            self.watermark = element


def _cut(choose: random.Random, batch: Batch) -> list[Batch]:
    bounds = sorted({0, len(batch), *(choose.randint(0, len(batch)) for _ in range(choose.randint(0, 2)))})
    return [batch.take(slice(*each)) for each in pairwise(bounds)]


def drawn_tuples(choose: random.Random, watermarks: Sequence[int]) -> list[tuple[int, list[tuple[int, int, int]]]]:
    """Before each watermark some tuples that it does not make late, most of them before the next one."""
    found, promised = [], -50
    for watermark in watermarks:
        ahead = max(promised, min(watermark, 100)) + 25
        times = [choose.randint(promised, ahead) for _ in range(choose.randint(0, 6))]
        found.append((watermark, [(t, choose.randint(1, 4), choose.randrange(1000)) for t in times]))
        promised = max(promised, min(watermark, 100))
    return found


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_every_tuple_meets_the_version_of_its_time_whatever_comes_first(how: str, suffix: str, tmp_path: Path) -> None:
    for seed in range(60):
        choose = random.Random(f"{how} {suffix} {seed}")
        folder = tmp_path / str(seed)
        folder.mkdir()
        path = folder / f"t.{suffix}"
        with interpreted():
            told = story(choose, path)
            drawn = drawn_tuples(choose, [watermark for watermark, _ in told.steps])
            out, parts = [], Parts.of(path, how)
            for share in range(instances := choose.randint(1, 3)):
                mine = [(w, tuples([row for row in rows_ if row[2] % instances == share])) for w, rows_ in drawn]
                out += run_one(choose, parts, told, mine, moves=choose.random() < 0.5)
        asked = [row for _, rows_ in drawn for row in rows_]
        assert_same_answer({"out": searched(asked, told.versions, how)}, {"out": parts.answers(out)})


def test_what_waits_for_a_later_version_is_left_alone_by_those_before(tmp_path: Path) -> None:
    """Each version that comes would copy it otherwise."""
    path, seed = tmp_path / "t.csv", 0
    while len((told := story(random.Random(seed), path)).versions) < 4:
        seed += 1
    parts = Parts.of(path)
    with interpreted():
        operator, times = parts.instance(), [until for until, _ in told.versions[:-1]]
        left = [batch_of(LEFT_STREAM, [(times[-1], 1, 7)]), batch_of(LEFT_STREAM, [(times[0], 1, 8), (times[-1], 2, 9)])]
        assert not [out for batch in left for out in without_pauses(operator.on_batch(batch, LEFT))]
        ahead, answered = operator._held[0].batch, 0
        for watermark, batches in told.steps:
            for batch in batches:
                answered += sum(len(out) for out in without_pauses(operator.on_batch(batch, RIGHT)))
                assert not operator._held or operator._held[0].batch is ahead
            list(without_pauses(operator.on_watermark(watermark)))
        assert answered >= 3 and not operator._held


def run_one(choose: random.Random, parts: Parts, told: Story, mine: Sequence[tuple[int, Batch]], moves: bool) -> list[Batch]:
    """One instance, or two of which the second goes on with the state of the first."""
    operator, out, promised = parts.instance(), [], MIN_TIME
    left = Sender(choose, [each for watermark, batch in mine for each in (batch, watermark)])
    right = Sender(choose, [each for watermark, batches in told.steps for each in (*batches, watermark)])
    while left.elements or right.elements:
        port = choose.choice([port for port, sender in ((LEFT, left), (RIGHT, right)) if sender.elements])
        for batch in (left, right)[port].feed(operator, port):
            assert batch.time.min() >= promised, "older than a watermark that has been let out"
            out.append(batch)
        if (combined := min(left.watermark, right.watermark)) > promised:
            promised = combined
            out += without_pauses(operator.on_watermark(combined))
        if moves and choose.random() < 0.1:
            before, operator = operator, parts.instance()
            operator.restore(before.snapshot(), everything)
            assert operator.state_bytes > 0 or not before.state_bytes
    assert not operator.next_end and len(operator.versions) == 1, "all is answered, and what is not used is freed"
    return out


def test_another_number_of_instances_has_the_versions_and_shares_the_tuples(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write(path, [(1, 10)])
    parts = Parts.of(path)
    reader, first, second = deployed(parts), parts.instance(), parts.instance()
    waiting = tuples([(25, 1, 0), (26, 1, 1), (27, 1, 2)])
    for batch in reader.on_watermark(5):
        for operator in (first, second):
            assert not list(without_pauses(operator.on_batch(batch, RIGHT)))
    assert not list(first.on_batch(waiting.take(slice(0, 2)), LEFT)) + list(second.on_batch(waiting.take(slice(2, 3)), LEFT))
    parts_there = [part for operator in (first, second) for part in operator.snapshot()]
    others = [parts.instance() for _ in range(3)]
    for i, operator in enumerate(others):
        operator.restore(parts_there, share(i, 3))
    write(path, [(1, 20)])
    out = [each for batch in reader.on_watermark(22) for operator in others for each in without_pauses(operator.on_batch(batch, RIGHT))]
    assert_same_answer({"out": [(t, (t, 1, a, 20)) for t, a in ((25, 0), (26, 1), (27, 2))]}, {"out": parts.answers(out)})
    early = [each for operator in others for each in operator.on_batch(tuples([(7, 1, 9)]), LEFT)]
    assert parts.answers(early) == [(7, (7, 1, 9, 10))] * 3, "each has the version that was in use"


def share(index: int, instances: int) -> Keep:
    def keep(port: int, columns: Columns) -> np.ndarray:
        numbers = np.arange(len(next(iter(columns.values()))))
        mine: np.ndarray = numbers >= 0 if port == RIGHT else numbers % instances == index
        return mine

    return keep


# --- the reader ------------------------------------------------------------------------------------------------------


def kept(reader: TableVersionsOperator, watermark: int) -> list[list[Any]]:
    """(version, until, k, n) of what it lets out."""
    found = list(without_pauses(reader.on_watermark(watermark)))
    return [list(row) for batch in found for row in zip(*(column.values.tolist() for column in batch.columns.values()), strict=True)]


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
@pytest.mark.parametrize("broken", BREAKS)
def test_what_cannot_be_read_leaves_the_version_before_it_in_use_and_says_why(broken: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{suffix}"
    write(path, [(1, 10)])
    reader = deployed(Parts.of(path))
    assert kept(reader, 1) == [[1, MIN_TIME, 1, 10], [1, 10, 0, 0]] and reader.notes == ()
    BREAKS[broken](path)
    assert kept(reader, 15) == [[1, 20, 0, 0]]
    assert len(reader.notes) == 1 and str(path) in reader.notes[0] and "stays in use" in reader.notes[0]
    if path.is_dir():
        path.rmdir()
    write(path, [(2, 20)])
    assert kept(reader, 19) == [] and reader.notes, "it is tried again at the next multiple"
    assert [row[2:] for row in kept(reader, 20)] == [[2, 20], [0, 0]] and reader.notes == ()


def test_a_part_of_a_version_is_never_seen(tmp_path: Path) -> None:
    """A NULL behind a hundred thousand rows: the first pieces have gone when it is found."""
    path = tmp_path / "t.parquet"
    write(path, [(1, 10)])
    parts = Parts.of(path)
    reader, operator = deployed(parts), parts.instance()
    n = 100_000
    pa.parquet.write_table(pa.table({"k": pa.array([1] * n, pa.int64()), "n": pa.array([*range(n - 1), None], pa.int64())}), path)
    batches = list(reader.on_watermark(15))
    assert sum(map(len, batches)) > 60_000 and "NULL in row 99999" in reader.notes[0]
    out = [each for batch in batches for each in operator.on_batch(batch, RIGHT)] + list(operator.on_batch(tuples([(12, 1, 0)]), LEFT))
    assert parts.answers(without_pauses(out)) == [(12, (12, 1, 0, 10))]


def test_a_file_that_changes_while_it_is_read_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write(path, [(1, 10)])
    reader = deployed(Parts.of(path))
    kept(reader, 1)
    write(path, [(1, 20)])
    reading = iter(reader.on_watermark(10))
    next(reading)
    os.utime(path)
    assert reader.version == 1 and len(list(reading)) == 1 and "changed while it was read" in reader.notes[0]
    assert [row[2:] for row in kept(reader, 20)] == [[1, 20], [0, 0]]


def test_a_file_that_is_as_it_was_is_not_read_and_one_that_took_its_place_is(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write(path, [(1, 10)])
    reader = deployed(Parts.of(path))
    assert len(kept(reader, 1)) == 2
    assert kept(reader, 10) == [[1, 20, 0, 0]] and kept(reader, 45) == [[1, 50, 0, 0]]
    write(path, [(1, 10)])
    assert [row[2:] for row in kept(reader, 50)] == [[1, 10], [0, 0]]


def test_the_first_version_is_of_the_deployment_or_newer(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write(path, [(1, 10)])
    reader, other = deployed(Parts.of(path)), deployed(Parts.of(path))
    write(path, [(1, 20)])
    assert [row[2:] for row in kept(reader, 1)] == [[1, 20], [0, 0]]
    path.unlink()
    assert [row[2:] for row in kept(other, 1)] == [[1, 10], [0, 0]] and other.notes
    with pytest.raises(DataError, match="cannot be read"):
        deployed(Parts.of(path))


def test_the_reader_takes_along_what_it_has_read(tmp_path: Path) -> None:
    """Also the first version, if that has not been let out; and the new one reads nothing before the next multiple."""
    path = tmp_path / "t.parquet"
    write(path, [(1, 10)])
    parts = Parts.of(path)
    before, second, third = deployed(parts), parts.reader(), parts.reader()
    second.restore(before.snapshot(), everything)
    path.unlink()
    assert [row[2:] for row in kept(second, 1)] == [[1, 10], [0, 0]]
    third.restore(second.snapshot(), everything)
    assert third.notes == second.notes != ()
    write(path, [(1, 30)])
    assert kept(third, 9) == []
    assert [row[2:] for row in kept(third, 10)] == [[1, 30], [0, 0]]
    fourth = parts.reader()
    fourth.restore(third.snapshot(), everything)
    assert kept(fourth, 20) == [[third.version, 30, 0, 0]], "the file is as it was"


def test_a_file_outside_the_folders_is_not_read_though_a_link_leads_there(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write(path, [(1, 10)])

    def check(asked: str) -> None:
        if os.path.islink(asked):
            raise QueryError(f"{asked!r} is not under a folder of this cluster")

    reader = deployed(Parts.of(path), check=check)
    kept(reader, 1)
    path.rename(tmp_path / "other.parquet")
    path.symlink_to(tmp_path / "other.parquet")
    assert kept(reader, 10) == [[1, 20, 0, 0]] and "not under a folder" in reader.notes[0]


# --- by the clock ----------------------------------------------------------------------------------------------------


def test_by_the_clock_a_tuple_sees_what_was_read_last(tmp_path: Path) -> None:
    path, now = tmp_path / "t.parquet", [1_000]
    write(path, [(1, 10)])
    parts = Parts.of(path, by="clock")
    reader, operator = deployed(parts, clock=lambda: now[0]), parts.instance()

    def advance(watermark: int) -> list[TimedRow]:
        return parts.answers([each for batch in reader.on_watermark(watermark) for each in operator.on_batch(batch, RIGHT)])

    assert not list(without_pauses(operator.on_batch(tuples([(90, 1, 0)]), LEFT))), "there is no version yet"
    assert advance(1) == [(90, (90, 1, 0, 10))]
    write(path, [(1, 20)])
    assert advance(50) == [], "event time counts for nothing"
    assert parts.answers(list(operator.on_batch(tuples([(91, 1, 1)]), LEFT))) == [(91, (91, 1, 1, 10))]
    now[0] += REFRESH
    advance(51)
    assert parts.answers(list(operator.on_batch(tuples([(52, 1, 2)]), LEFT))) == [(52, (52, 1, 2, 20))]
    assert len(operator.versions) == 1
    write(path, [(1, 30)])
    now[0] -= 10 * REFRESH
    advance(53)
    out = parts.answers(list(operator.on_batch(tuples([(54, 1, 3)]), LEFT)))
    assert out == [(54, (54, 1, 3, 30))], "a clock that is set back holds up nothing"


# --- plans, memory ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["event_time", "clock"])
def test_in_whole_plans_a_table_that_stays_is_a_static_table(by: str, tmp_path: Path) -> None:
    """Split anyhow, with any parallelism."""
    path = tmp_path / "t.parquet"
    write(path, content := [(1, 10), (2, 20), (1, 30)])
    for seed in range(12):
        choose = random.Random(f"{by} {seed}")
        given = sides(choose)
        table = StaticTable(SCHEMA, str(path))
        asked = query(Lookup("j", "l", table, (("k", "k"),), "left", "", None, choose.randint(1, 30), by), (given.left,))
        with interpreted():
            out = ran(asked, given, execution(choose))
        assert_same_answer({"out": searched(given.rows("l"), [(MAX_TIME + 1, content)])}, out.outputs)


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("seed", range(12))
def test_in_whole_plans_a_file_that_is_replaced_is_the_references(seed: int, how: str, tmp_path: Path) -> None:
    """Of two publishers, of which one may be far ahead: its tuples wait for the versions of their times."""
    choose, path = random.Random(f"{how} {seed}"), tmp_path / "t.arrow"
    refresh, options = choose.randint(1, 15), {"split": choose.choice(("stateful", "single", "per-operator"))}
    lookup = Lookup("j", "l", StaticTable(SCHEMA, str(path)), (("k", "k"),), how, "", None, refresh)
    asked = replace(query(lookup, (Stream("l", LEFT_STREAM.schema, col("t"), 0),)), options=Options(**options))
    versions, content = Versions(refresh), content_of(choose, 0)
    changing_files.write(path, SCHEMA, content)
    stamps, sent = {"p0": -60, "p1": -60}, dict[str, list[Any]]({"p0": [], "p1": []})
    with testing.run(asked, instances=choose.randint(1, 3), seed=seed) as running:
        for publisher in stamps:
            running.open("l", publisher)
        for number in range(1, choose.randint(4, 20)):
            if choose.random() < 0.6:
                content = content_of(choose, 100 * number)
                changing_files.write(path, SCHEMA, content)
            publisher = choose.choice(("p0", "p0", "p1"))
            times = sorted(stamps[publisher] + choose.choice((0, 1, 5, 20)) for _ in range(choose.randint(1, 4)))
            given = [(t, choose.randint(1, 4), choose.randrange(1000)) for t in times]
            running.send("l", [dict(zip(LEFT_STREAM.schema.names, row, strict=True)) for row in given], publisher)
            stamps[publisher], sent[publisher] = times[-1], sent[publisher] + given
            if all(sent.values()):
                versions.come_to(min(stamps.values()), content)
        running.close()
        versions.come_to(END, content)
        inputs = {"l": [Partition(i, sent[publisher]) for i, publisher in enumerate(stamps)]}
        wanted = expected_of(asked, inputs, {"j": versions}).outputs
        assert_same_answer(wanted, {name: changing_files.answers_of(running, name) for name in running.outputs})


@pytest.mark.parametrize("piece", [1, 3, 100])
def test_an_index_made_in_pieces_is_the_index(piece: int) -> None:
    for seed in range(20):
        choose = np.random.default_rng(seed)
        n = int(choose.integers(0, 40))
        keys = Keys(choose.integers(0, 6, n).astype(np.uint64), np.full(n, 8, np.uint64), np.zeros(0, np.uint8))
        null = choose.integers(0, 2, n).astype(np.uint8) if seed % 2 else NO_NULLS
        with interpreted():
            whole, building, pauses = KeyIndex.of(keys, null), KeyIndex.building(keys, null, piece), 0
            try:
                while True:
                    next(building)
                    pauses += 1
            except StopIteration as built:
                index: KeyIndex = built.value
        assert pauses == 3 * -(-n // piece)
        for made, expected in ((index.order, whole.order), (index.starts, whole.starts), (index.groups.w0, whole.groups.w0)):
            assert made.tolist() == expected.tolist()
        assert index.slots.tolist() == whole.slots.tolist()


def test_a_version_that_is_not_used_any_more_is_freed_and_the_limit_is_held(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parts = Parts.of(path)
    write(path, [(k, k) for k in range(1000)])
    reader, operator = deployed(parts), parts.instance()
    sizes = []
    for watermark in range(5, 105, 10):
        write(path, [(k, k + watermark) for k in range(1000)])
        for batch in reader.on_watermark(watermark):
            assert not list(without_pauses(operator.on_batch(batch, RIGHT)))
        assert not list(operator.on_watermark(watermark)) and len(operator.versions) <= 2
        sizes.append(operator.state_bytes)
    assert max(sizes) < 2.5 * sizes[0]
    small = parts.instance(limit=10_000)
    write(path, [(k, -k) for k in range(1000)])
    with pytest.raises(StateLimitExceeded, match=r"operator 'j'.*limit of 10000 bytes"):
        for batch in reader.on_watermark(MAX_TIME):
            list(small.on_batch(batch, RIGHT))
