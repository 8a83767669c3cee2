"""What every source has to keep: however it is cut and read, the same rows, late ones and letters; and from any position on.

A new format is added to `WRITERS`: how its files are made, of rows some of which are bad.

Tests `arrow_values.py`, `blocks.py`, `event_time.py`, `files.py`, `json_lines.py`, `lines.py`, `rows.py`, `scripted.py`, `source.py`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from cep.dataflow.channel import Inbox
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.sources.blocks import Extent, cut_blocks
from cep.dataflow.sources.files import FileSource
from cep.dataflow.sources.opening import BLOCK_FORMATS, check_file, format_of
from cep.dataflow.sources.published import PublishedSource
from cep.dataflow.sources.publishers import Closing, Published, PublisherPartition
from cep.dataflow.sources.query_source import QuerySource
from cep.dataflow.sources.scripted import ListSource
from cep.dataflow.sources.source import Position, Reading, Source
from cep.elements import MAX_TIME, MIN_TIME, Batch, End
from cep.errors import ClusterError, DataError
from cep.kernels.columns import to_arrow
from cep.kernels.jit import interpreted
from cep.model.expr import Expr, col
from cep.model.schema import Schema
from cep.model.streams import SOURCE_FORMATS, ArrowFiles, JsonLinesFiles, ParquetFiles, SourceFiles, Stream, TextFiles
from cep.world.store import DiskStore, File, MemoryStore, Store, append_all

SCHEMA = Schema.of({"ts": "timestamp[ms]", "n": "int64", "x": "float64?", "s": "string", "unread": "string"})
NEEDED = ("ts", "n", "x", "s")
PART = 7  # rows of a row group, and of a record batch
Row = dict[str, Any]


def made(count: int, seed: int) -> list[Row]:
    """In event-time order but for a few; `n` None: a bad row, but one with an event time; `ts` None: without."""
    choose, now, rows = random.Random(seed), 1_600_000_000_000, []
    for number in range(count):
        now += choose.choice((0, 0, 1, 3, -2, -9))
        row = {"ts": now, "n": number, "x": choose.choice((0.5, None, -1e30)), "s": choose.choice(("", "ä", "x" * 20)), "unread": "y"}
        rows.append(row | choose.choice(([{}] * 8) + [{"n": None}, {"ts": None}]))
    return rows


def _text(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(",".join("" if v is None else str(v) for v in row.values()) + "\n" for row in rows))


def _jsonl(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _table(rows: list[Row]) -> pa.Table:
    types = {"ts": pa.int64(), "n": pa.int64(), "x": pa.float64(), "s": pa.string(), "unread": pa.string()}
    return pa.Table.from_pylist(rows, pa.schema(list(types.items())))


def _parquet(path: Path, rows: list[Row]) -> None:
    pq.write_table(_table(rows), path, row_group_size=PART, compression="none", use_dictionary=False)


def _arrow(path: Path, rows: list[Row]) -> None:
    with pa.ipc.new_file(path, _table(rows).schema) as writer:
        writer.write_table(_table(rows), max_chunksize=PART)


@dataclass(frozen=True)
class Format:
    files: Callable[[str], SourceFiles]
    write: Callable[[Path, list[Row]], None]


WRITERS = {
    "text": Format(lambda path: TextFiles((path,), block_bytes=1024), _text),
    "jsonl": Format(lambda path: JsonLinesFiles((path,), block_bytes=1024), _jsonl),
    "parquet": Format(lambda path: ParquetFiles((path,)), _parquet),
    "arrow": Format(lambda path: ArrowFiles((path,)), _arrow),
}
formats = pytest.mark.parametrize("format_", WRITERS.values(), ids=WRITERS)


def test_every_format_is_here() -> None:
    assert {cls.format for cls in BLOCK_FORMATS} == set(SOURCE_FORMATS) == set(WRITERS)


class Readers:
    """All readers of the files at `path`, and what they have read."""

    def __init__(self, format_: Format, path: Path, readers: int = 1, read_bytes: int = 1 << 20, event_time: Expr | None = None) -> None:
        self.stream = Stream("s", SCHEMA, col("ts") if event_time is None else event_time, 3_000, format_.files(str(path)))
        self.letters = DeadLetters()
        self.sources = [self._made(path, reader, readers, read_bytes) for reader in range(readers)]
        self.rows: list[tuple[Any, ...]] = []

    def _made(self, path: Path, reader: int, readers: int, read_bytes: int) -> FileSource:
        reads = format_of(self.stream, NEEDED, DiskStore(), read_bytes)
        reads.warm()
        blocks = cut_blocks(self.stream, [(str(path), path.stat().st_size)], reads)
        source = FileSource(Reading(self.stream, reader, readers, 0, True, SCHEMA, self.letters, lambda: 0, DiskStore()), reads, blocks)
        source.late.wanted = True
        return source

    def turn(self, source: FileSource) -> None:
        before, batch = source.watermark, source.read()
        if batch is not None and len(batch):
            assert batch.origin is not None and int(batch.time.min()) >= before
            assert "unread" not in batch.columns
            self._note(batch, "on time")
        for late in source.late.take():
            self._note(late, "late")

    def _note(self, batch: Any, what: str) -> None:
        columns = [to_arrow(batch.columns[name]).to_pylist() for name in ("n", "x", "s")]
        self.rows += [(what, *each) for each in zip(batch.time.tolist(), *columns, map(tuple, batch.origin.tolist()), strict=True)]

    def run(self, choose: random.Random, turns: int = 1 << 30) -> None:
        while turns and (left := [source for source in self.sources if not source.ended]):
            self.turn(choose.choice(left))
            turns -= 1

    @property
    def answer(self) -> tuple[list[Any], dict[str, int], int, int]:
        late, odd = sum(source.late_rows for source in self.sources), sum(source.odd_times for source in self.sources)
        return sorted(self.rows, key=lambda row: row[-1]), dict(self.letters.counts), late, odd


@formats
def test_all_good_rows_come_whole_and_bad_ones_are_letters(format_: Format, tmp_path: Path) -> None:
    rows = made(200, 1)
    format_.write(tmp_path / "f", rows)
    with interpreted():
        readers = Readers(format_, tmp_path / "f")
        readers.run(random.Random(0))
    found, counts, late, odd = readers.answer
    good = [row for row in rows if None not in (row["ts"], row["n"])]
    assert sorted((n, time // 1000, x, s) for _, time, n, x, s, _ in found) == [(r["n"], r["ts"], r["x"], r["s"]) for r in good]
    assert counts == {"s": len(rows) - len(good)} and odd == 0
    assert 0 < late < len(good) and late == sum(what == "late" for what, *_ in found)
    assert {letter.source for letter in readers.letters.letters} == {str(tmp_path / "f")}
    unit = BLOCK_FORMATS[type(readers.stream.files)].unit
    places = [letter.position.split() for letter in readers.letters.letters]
    assert {place[0] for place in places} == {unit} and len({int(place[1]) for place in places}) == len(places)
    assert all("NULL" in letter.reason and letter.record for letter in readers.letters.letters)
    assert readers.sources[0].watermark == MAX_TIME


@formats
@pytest.mark.parametrize("event_time", [None, col("ts").cast("timestamp")], ids=["plain", "computed"])
def test_any_readers_and_pieces_say_the_same(format_: Format, event_time: Expr | None, tmp_path: Path) -> None:
    format_.write(tmp_path / "f", made(150, 2))
    with interpreted():
        whole = Readers(format_, tmp_path / "f", event_time=event_time)
        whole.run(random.Random(0))
        for readers, read_bytes in ((1, 16), (2, 100), (5, 1 << 20)):
            cut = Readers(format_, tmp_path / "f", readers, read_bytes, event_time)
            cut.run(random.Random(readers))
            assert cut.answer == whole.answer


@formats
def test_readers_go_on_from_any_position(format_: Format, tmp_path: Path) -> None:
    """However many there were, and are; and what was written down is JSON."""
    format_.write(tmp_path / "f", made(120, 3))
    with interpreted():
        whole = Readers(format_, tmp_path / "f")
        whole.run(random.Random(0))
        for seed in range(6):
            choose = random.Random(seed)
            counts, read, letters, late = [], [], 0, 0
            positions: list[Position] | None = None
            for turns in (choose.randint(0, 12), choose.randint(0, 12), 1 << 30):
                readers = Readers(format_, tmp_path / "f", choose.randint(1, 3), choose.choice((40, 300)))
                for source in readers.sources:
                    if positions is not None:
                        source.restore(positions)
                readers.run(choose, turns)
                positions = json.loads(json.dumps([source.position() for source in readers.sources]))
                for source in readers.sources:
                    source.release()
                counts.append(len(readers.rows))
                read += readers.rows
                letters, late = letters + readers.letters.counts["s"], late + readers.answer[2]
            assert sorted(read, key=lambda row: row[-1]) == whole.answer[0], counts
            assert (letters, late) == (whole.answer[1]["s"], whole.answer[2])


@formats
def test_what_is_another_file_is_refused_where_it_is_planned(format_: Format, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\x1f\x8b\x08 what gzip makes of it")
    stream = Stream("s", SCHEMA, col("ts"), 0, format_.files(str(tmp_path / "f")))
    with pytest.raises(DataError, match=str(tmp_path / "f")):
        check_file(stream, str(tmp_path / "f"), DiskStore())


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_a_column_twice_is_refused_where_it_is_planned_and_where_it_is_read(name: str, tmp_path: Path) -> None:
    """Before, a KeyError of Arrow's that named no file; of a name that is no UTF-8 a UnicodeDecodeError."""
    path, format_ = tmp_path / "f", WRITERS[name]
    write = pq.write_table if name == "parquet" else partial(pa.feather.write_feather, compression="uncompressed")
    write(pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["k", "v", "v"]), str(path))
    once, twice = (Stream("s", Schema.of(fields), files=format_.files(str(path))) for fields in ({"k": int}, {"k": int, "v": int}))
    check_file(once, str(path), DiskStore())
    with pytest.raises(DataError, match=f"file '{path}': 2 columns 'v'; there are k, v, v"):
        check_file(twice, str(path), DiskStore())
    assert list(cut_of(once, {"k"}, path)) == list(cut_of(twice, {"k"}, path)) and list(cut_of(once, {"k"}, path))
    with pytest.raises(ClusterError, match=f"file '{path}' cannot be read: .*2 columns 'v'"):
        list(cut_of(twice, {"k", "v"}, path))
    write(pa.table({"k": [1], "QQQQQQQQ": [1]}), str(path))
    path.write_bytes(path.read_bytes().replace(b"QQQQQQQQ", b"\xff\xfeQQQQQQ"))
    with pytest.raises(DataError, match=f"file '{path}': .*utf-8"):
        check_file(once, str(path), DiskStore())
    with pytest.raises(ClusterError, match=f"file '{path}' cannot be read: .*utf-8"):
        list(cut_of(once, {"k"}, path))


def cut_of(stream: Stream, needed: set[str], path: Path) -> Iterator[Extent]:
    return format_of(stream, needed, DiskStore()).cut(str(path), path.stat().st_size)


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_columns_of_another_kind_are_refused_where_it_is_planned(name: str, tmp_path: Path) -> None:
    format_ = WRITERS[name]
    format_.write(tmp_path / "f", made(3, 4))
    for fields, wrong in (({"s": "int64"}, "column 's': expected int64, got string"), ({"z": "int64"}, "no column 'z'")):
        with pytest.raises(DataError, match=wrong):
            check_file(Stream("s", Schema.of(fields), files=format_.files(str(tmp_path / "f"))), str(tmp_path / "f"), DiskStore())
    check_file(Stream("s", SCHEMA, col("ts"), 0, format_.files(str(tmp_path / "f"))), str(tmp_path / "f"), DiskStore())


GROWN = {"z": "int64?", "t": "timestamp?", "w": "string?", "b": "bool?", "l": "list<string>?"}


@pytest.mark.parametrize("needed", [("n", *GROWN), tuple(GROWN), ("z",)])
@pytest.mark.parametrize("name", ["jsonl", "parquet", "arrow"])
def test_files_of_before_a_stream_grew_have_null_in_the_new_columns(name: str, needed: tuple[str, ...], tmp_path: Path) -> None:
    path, format_, schema = tmp_path / "f", WRITERS[name], Schema.of({"n": "int64", **GROWN})
    format_.write(path, [{"ts": n, "n": n, "x": None, "s": "", "unread": ""} for n in range(PART + 2)])
    stream = Stream("s", schema, files=format_.files(str(path)))
    check_file(stream, str(path), DiskStore())
    rows: list[Row] = []
    with interpreted():
        reads = format_of(stream, needed, DiskStore())
        reads.warm()
        for block in cut_blocks(stream, [(str(path), path.stat().st_size)], reads):
            opened = reads.open(block)
            piece = opened.read(block.start)
            opened.close()
            assert not piece.bad and piece.count == len(piece.records)
            rows += pa.table({each: to_arrow(piece.columns[each]) for each in needed}).to_pylist()
    assert rows == [{each: n if each == "n" else None for each in needed} for n in range(PART + 2)]


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_a_column_that_makes_the_event_time_is_there(name: str, tmp_path: Path) -> None:
    WRITERS[name].write(tmp_path / "f", made(3, 4))
    stream = Stream("s", Schema.of({"z": "timestamp?", "n": "int64?"}), col("z"), 0, WRITERS[name].files(str(tmp_path / "f")))
    with pytest.raises(DataError, match="no column 'z'"):
        check_file(stream, str(tmp_path / "f"), DiskStore())


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_a_part_that_cannot_be_read_is_as_many_bad_rows(name: str, tmp_path: Path) -> None:
    """The others are read."""
    path, format_ = tmp_path / "f", WRITERS[name]
    rows = [{"ts": 1_600_000_000_000 + n, "n": n, "x": None, "s": "text" * 20 + str(n), "unread": ""} for n in range(4 * PART)]
    format_.write(path, rows)
    data = bytearray(path.read_bytes())
    at = data.index(f"text{PART + 1}".encode())  # a text of the second part is no UTF-8 any more
    data[at : at + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    with interpreted():
        readers = Readers(format_, path)
        readers.run(random.Random(0))
    found, counts, *_ = readers.answer
    missing = set(range(4 * PART)) - {n for _, _, n, *_ in found}
    assert PART + 1 in missing and missing <= set(range(PART, 2 * PART)) and counts == {"s": len(missing)}


INSTANT = datetime(2020, 1, 1, 12, 30, 0, 1, tzinfo=UTC)
VALUES = {"b": "bool", "i": "int32", "t": "timestamp", "u": "timestamp[ms]?", "l": "list<int64>?", "lt": "list<timestamp>", "bin": "binary"}


@pytest.mark.parametrize("name", ["jsonl", "parquet", "arrow"])
def test_values_of_every_type(name: str, tmp_path: Path) -> None:
    schema, path = Schema.of(VALUES), tmp_path / "f"
    whole = INSTANT.replace(microsecond=5000)
    rows = [
        {"b": True, "i": -(2**31), "t": INSTANT, "u": whole, "l": [1, None, 3], "lt": [INSTANT, None], "bin": b"ab"},
        {"b": False, "i": 2**31 - 1, "t": INSTANT + timedelta(days=1), "u": None, "l": None, "lt": [], "bin": b""},
    ]
    if name == "jsonl":
        for row in rows:
            shown = {"t": row["t"].isoformat(), "lt": [t and t.isoformat() for t in row["lt"]], "bin": row["bin"].decode()}
            shown["u"] = row["u"] and round(row["u"].timestamp() * 1000)
            with path.open("a") as file:
                file.write(json.dumps(row | shown, default=str) + "\n")
    elif name == "parquet":
        pq.write_table(pa.Table.from_pylist(rows, schema.arrow), path)
    else:
        with pa.ipc.new_file(path, schema.arrow) as writer:
            writer.write_table(pa.Table.from_pylist(rows, schema.arrow))
    stream = Stream("s", schema, files=WRITERS[name].files(str(path)))
    check_file(stream, str(path), DiskStore())
    with interpreted():
        reads = format_of(stream, schema.names, DiskStore())
        reads.warm()
        (block,) = cut_blocks(stream, [(str(path), path.stat().st_size)], reads)
        opened = reads.open(block)
        piece = opened.read(block.start)
        opened.close()
    assert not piece.bad
    assert pa.table({name: to_arrow(piece.columns[name]) for name in schema.names}).to_pylist() == rows


#: A line of JSON -> why it is bad; None: it is good.
LINES = {
    '{"ts": 5, "n": 1}': None,
    '{"n": 2, "ts": 6, "more": {"x": [null, {}]}}\r': None,
    ' \t{"ts": 7, "n": 1} \t': None,
    '{"ts": 7, "n": 1}  \r': None,
    "  ": "no JSON",
    '{"ts": 7, "n": 1, "n": 2}': "",
    "null": "expected a JSON object, got None",
    "": "no JSON",
    "[1]": "expected a JSON object, got [1]",
    '{"ts": 8, "n": 1} {"ts": 8, "n": 1}': "no JSON",
    '{"ts": 8, "n": 1': "no JSON",
    "{}null{}": "no JSON",
    '{"ts": 8, "n": 1.5}': "field 'n': expected int64, got 1.5",
    '{"ts": 8, "n": "1"}': "field 'n': expected int64, got '1'",
    '{"ts": 8}': "field 'n': expected int64, got NULL",
    '{"ts": "2020-01-01", "n": 1}': "field 'ts': expected timestamp[ms], got '2020-01-01'",
    '{"ts": 99999999999999, "n": 1}': "out of its range",
    '{"ts": 9223372036854775807, "n": 1}': "field 'ts': expected timestamp[ms], got 9223372036854775807",
    '{"ts": 9, "n": 3, "unread": 5}': None,
}


def test_lines_of_json(tmp_path: Path) -> None:
    """Each by itself, and all together."""
    schema = Schema.of({"ts": "timestamp[ms]", "n": "int64", "unread": "string?"})
    for number, lines in enumerate([*([line] for line in LINES), list(LINES)]):
        path = tmp_path / str(number)
        path.write_text("".join(f"{line}\n" for line in lines))
        stream = Stream("s", schema, col("ts"), 0, JsonLinesFiles((str(path),)))
        with interpreted():
            reads, letters = format_of(stream, ("ts", "n"), DiskStore()), DeadLetters()
            blocks = cut_blocks(stream, [(str(path), path.stat().st_size)], reads)
            source = FileSource(Reading(stream, 0, 1, 0, True, schema, letters, lambda: 0, DiskStore()), reads, blocks)
            while not source.ended:
                source.read()
        bad = [reason for line in lines if (reason := LINES[line]) is not None]
        assert len(letters.letters) == len(bad), lines
        for letter, reason in zip(letters.letters, bad, strict=True):
            assert reason in letter.reason, (letter, reason)


# --- sources that are sent to: what was not taken is sent once more ------------------------------------------------------

TIMES = [(10, 12), (11, 3), (15,), (2, 20), (19, 16)]  # of batches; disorder 4
Sent = list[tuple[Any, int]]  # elements, each with the watermark after it


def _published(sent: Sent) -> PublishedSource:
    source = PublishedSource("s", 4, 0, True, DeadLetters())
    source.enough_rows = 1
    source.open(PublisherPartition("p", 0, _inbox(sent)))
    return source


def _fed(sent: Sent) -> QuerySource:
    source = QuerySource("s", "q", [0])
    source.attach(0, _inbox(sent), MIN_TIME)
    return source


def _inbox(sent: Sent) -> Inbox:
    inbox = Inbox("p", 1 << 20)
    for number, (element, watermark) in enumerate(sent):
        inbox.accept(element, 1, number, watermark, MIN_TIME)
    return inbox


def _sent_by_a_publisher() -> Sent:
    sent: Sent = []
    greatest, record = MIN_TIME, 0
    for times in TIMES:
        sent.append((Published(Batch({}, np.array(times, np.int64)), greatest, record), max(greatest, *times) - 4))
        greatest, record = max(greatest, *times), record + len(times)
    return [*sent, (Closing("p", True), MIN_TIME)]


def _sent_by_a_query() -> Sent:
    batches = [Batch({}, np.array(times, np.int64), np.array([(7, time) for time in times])) for times in TIMES]
    return [*((each, 2 * number) for number, each in enumerate(batches)), (End(), MAX_TIME)]


def _scripted(sent: Sent) -> ListSource:
    return ListSource([element for element, _ in sent if isinstance(element, Batch)], disorder=4)


SENT: dict[str, tuple[Callable[[Sent], Source], Callable[[], Sent]]] = {
    "published": (_published, _sent_by_a_publisher),
    "fed": (_fed, _sent_by_a_query),
    "scripted": (_scripted, lambda: [(Batch({}, np.array(times, np.int64)), 0) for times in TIMES]),
}


def _read(source: Source, batches: int = 100) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for _ in range(batches):
        batch = None if source.ended else source.read()
        if batch is not None and len(batch):
            assert batch.origin is not None
            found += [(time, *origin) for time, origin in zip(batch.time.tolist(), batch.origin.tolist(), strict=True)]
    return found


@pytest.mark.parametrize("kind", SENT)
def test_one_that_is_sent_to_goes_on_from_any_position(kind: str) -> None:
    made_of, sent = SENT[kind]
    whole = made_of(sent())
    rows = _read(whole)
    assert whole.ended and whole.watermark == MAX_TIME and (whole.late_rows > 0) == (kind != "fed")
    for taken in range(len(TIMES) + 1):
        first = made_of(sent())
        before = _read(first, taken)
        second = made_of(sent() if kind == "scripted" else sent()[taken:])
        second.restore([json.loads(json.dumps(first.position()))])
        assert (second.watermark, second.since) == (first.watermark, first.since)
        assert before + _read(second) == rows
        assert second.ended and second.watermark == MAX_TIME
        assert first.late_rows + second.late_rows == whole.late_rows


class FailingFile:
    """A file of a disk that fails at one of its readings."""

    def __init__(self, file: File, left: list[int]) -> None:
        self.file, self.left = file, left

    def read_at(self, into: memoryview, position: int) -> int:
        self.left[0] -= 1
        if not self.left[0]:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self.file.read_at(into, position)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


class FailingStore(MemoryStore):
    def __init__(self, path: Path, fails_at: int) -> None:
        super().__init__()
        self.left = [fails_at]
        self.make_folder(str(path.parent))
        append_all(self.create(str(path)), path.read_bytes())

    def open(self, path: str) -> File:
        return FailingFile(super().open(path), self.left)


def rows_in(store: Store, stream: Stream, path: Path) -> list[Row]:
    """All rows, read through the store. None is bad."""
    reads = format_of(stream, SCHEMA.names, store)
    reads.warm()
    found: list[Row] = []
    for block in cut_blocks(stream, [(str(path), path.stat().st_size)], reads):
        with contextlib.closing(reads.open(block)) as opened:
            place = block.start
            while place < block.end:
                piece = opened.read(place)
                assert not piece.bad
                found += pa.table({each: to_arrow(piece.columns[each]) for each in SCHEMA.names}).to_pylist()
                place = piece.end
    return found


@pytest.mark.parametrize("name", WRITERS)
def test_a_disk_that_fails_makes_no_bad_rows(name: str, tmp_path: Path) -> None:
    """Whichever reading fails, the query fails by the name of the file: with another try the rows would be there."""
    path, writer = tmp_path / "f", WRITERS[name]
    writer.write(path, [{"ts": 1_600_000_000_000 + n, "n": n, "x": 0.5, "s": f"text {n}", "unread": ""} for n in range(4 * PART)])
    stream = Stream("s", SCHEMA, files=writer.files(str(path)))
    with interpreted():
        expected = rows_in(DiskStore(), stream, path)
        whole = FailingStore(path, 0)
        assert rows_in(whole, stream, path) == expected and len(expected) > 1
        reads = -whole.left[0]
        assert reads > 1
        for fails_at in range(1, reads + 1):
            with pytest.raises(ClusterError, match=f"file '{path}' cannot be read: Input/output error"):
                rows_in(FailingStore(path, fails_at), stream, path)


class CountedFile:
    def __init__(self, file: File, store: CountingStore) -> None:
        self.file, self.store = file, store
        store.open_files += 1

    def read_at(self, into: memoryview, position: int) -> int:
        got = self.file.read_at(into, position)
        self.store.bytes_read += got
        return got

    def close(self) -> None:
        self.store.open_files -= 1
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


class CountingStore(DiskStore):
    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = self.open_files = 0

    def open(self, path: str) -> File:
        return CountedFile(super().open(path), self)


@pytest.mark.parametrize("header", [False, True])
def test_a_line_longer_than_many_blocks_is_gone_through_once_to_cut_its_file(header: bool, tmp_path: Path) -> None:
    """Before, from each multiple of the block's bytes to its end. Where blocks begin is what it was: behind the line over a multiple."""
    path, store, block = tmp_path / "long.csv", CountingStore(), 1024
    lines = [b"1,2\n"] * 300 + [b"9" * (block << 10) + b"\n"] + [b"3,4\n"] * 600
    path.write_bytes(b"".join(lines))
    ends = list(accumulate(map(len, lines)))
    stream = Stream("s", Schema.of({"a": "int64", "b": "int64"}), files=TextFiles((str(path),), block_bytes=block, header=header))
    with interpreted():
        extents = list(format_of(stream, {"a"}, store).cut(str(path), ends[-1]))
    starts = {next(end for end in ends if end >= multiple) for multiple in range(block, ends[-1], block)} - {ends[-1]}
    assert [extent.start for extent in extents] == sorted(starts | {len(lines[0]) if header else 0})
    assert [extent.end for extent in extents] == [*(extent.start for extent in extents[1:]), ends[-1]]
    assert store.bytes_read < 4 * ends[-1]


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_what_tells_of_the_parts_of_a_file_is_not_read_for_each_of_them(name: str, tmp_path: Path) -> None:
    """It grows with them, so that reading a file would take as long as the square of its size."""
    writer, read = WRITERS[name], []
    for parts in (50, 400):
        path, store = tmp_path / str(parts), CountingStore()
        writer.write(path, [{"ts": 1_600_000_000_000 + n, "n": n, "x": 0.5, "s": "text", "unread": ""} for n in range(parts * PART)])
        stream = Stream("s", SCHEMA, col("ts"), 0, writer.files(str(path)))
        with interpreted():
            reads = format_of(stream, NEEDED, store)
            blocks = cut_blocks(stream, [(str(path), path.stat().st_size)], reads)
            source = FileSource(Reading(stream, 0, 1, 0, True, SCHEMA, DeadLetters(), lambda: 0, store), reads, blocks)
            assert len(blocks) == parts
            while not source.ended:
                source.read()
        read.append(store.bytes_read / parts)
        assert store.open_files == 0
    assert read[1] < 1.5 * read[0]


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_a_file_that_is_cut_between_two_parts_is_no_bad_rows(name: str, tmp_path: Path) -> None:
    """Its rest would be dead letters, and the query would end as if that were all."""
    path, writer = tmp_path / "f", WRITERS[name]
    writer.write(path, [{"ts": 1_600_000_000_000 + n, "n": n, "x": 0.5, "s": f"text {n}", "unread": ""} for n in range(5 * PART)])
    with interpreted():
        source = Readers(writer, path).sources[0]
        source.read()
        os.truncate(path, path.stat().st_size // 2)
        with pytest.raises(ClusterError, match=f"file '{path}' cannot be read"):
            while not source.ended:
                source.read()
