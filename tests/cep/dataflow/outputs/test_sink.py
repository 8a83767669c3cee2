"""Files that an output is written to: what is written is what a source reads, and nothing is lost silently.

Tests `sink.py`, `cep/compile/text_rows.py`, `cep/kernels/writing.py`.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.compile.text import TextParser
from cep.compile.text_rows import TextRows
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.meter import Account, Meter
from cep.dataflow.outputs.sink import CommittedSink, FileSink, SinkChannel
from cep.dataflow.outputs.staged import WRITE_BYTES
from cep.elements import MAX_TIME, MIN_TIME, Batch, End, Fail
from cep.errors import ClusterError, QueryError
from cep.kernels.columns import Column, columns_from_arrow, to_arrow
from cep.kernels.text import READABLE
from cep.model import query as queries
from cep.model.query import Output
from cep.model.schema import Schema
from cep.model.sinks import ArrowSink, TextSink
from cep.model.times.iso_instants import FOUR_DIGIT_YEARS_US
from cep.world.store import MemoryStore

SCHEMA = Schema.of(
    {
        "n": "int64",
        "small": "int32",
        "x": "float64",
        "flag": "bool",
        "at": "timestamp[ms]",
        "when": "timestamp",
        "text": str,
        "maybe": "int64?",
        "exact": "timestamp[ns]",
    }
)

TEXTS = st.text(st.characters(exclude_characters=",\r\n", exclude_categories=("Cs",)), max_size=40)
WRITTEN_INSTANTS = st.integers(*FOUR_DIGIT_YEARS_US)
NS_MAX_US = (2**63 - 1) // 1000
ROWS = st.fixed_dictionaries(
    {
        "n": st.integers(-(2**63), 2**63 - 1),
        "small": st.integers(-(2**31), 2**31 - 1),
        "x": st.floats(allow_nan=False),
        "flag": st.booleans(),
        "at": WRITTEN_INSTANTS.map(lambda t: t // 1000 * 1000),
        "when": WRITTEN_INSTANTS,
        "exact": st.integers(-NS_MAX_US, NS_MAX_US),
        "text": TEXTS,
        "maybe": st.none() | st.integers(-(2**63), 2**63 - 1),
    }
)


def record_batch(rows: list[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA.arrow)


def batch(rows: list[dict[str, object]]) -> Batch:
    return Batch(columns_from_arrow(record_batch(rows), SCHEMA), np.arange(len(rows), dtype=np.int64))


def opened(*given: Any) -> SinkChannel:
    return SinkChannel(FileSink(*given), Meter(), Account())


def read_back(data: bytes) -> list[dict[str, object]]:
    parser = TextParser.make(SCHEMA, SCHEMA.names)
    padded = np.frombuffer(data + bytes(READABLE), np.uint8)
    parsed = parser.parse(padded, 0, len(data), 1 << 20)
    assert not parsed.bad
    return pa.table({name: to_arrow(column) for name, column in parsed.columns.items()}).to_pylist()


@given(st.lists(ROWS, min_size=1, max_size=30))
def test_what_is_written_is_read_again_as_it_was(rows: list[dict[str, object]]) -> None:
    records, unwritten = TextRows(SCHEMA, ",").write(batch(rows).columns)
    assert not unwritten
    assert read_back(records.tobytes()) == record_batch(rows).to_pylist()


def test_numbers_of_every_length_beside_each_other() -> None:
    near = {sign * (10**digits + more) for digits in range(20) for more in (-1, 0, 1) for sign in (1, -1)}
    edges = sorted({n for n in near if -(2**63) <= n < 2**63} | {-(2**63), 2**63 - 1})
    schema = Schema.of({"a": "int64", "b": "int64"})
    for second in (edges, edges[::-1], [7] * len(edges)):
        columns = columns_from_arrow(pa.RecordBatch.from_pydict({"a": edges, "b": second}, schema.arrow), schema)
        for rows in (slice(None), slice(1)):  # the last row of all has nothing behind it
            kept = {name: Column(column.type, column.values[rows]) for name, column in columns.items()}
            records, unwritten = TextRows(schema, ",").write(kept)
            pairs = zip(edges[rows], second[rows], strict=True)
            assert (records.tobytes().decode(), unwritten) == ("".join(f"{a},{b}\n" for a, b in pairs), [])


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=12), st.sampled_from([b",", b";", b"\n", b"\r"]), st.data())
def test_rows_of_a_file_are_written_as_they_stand_there(rows: list[tuple[str, str]], odd: bytes, data: st.DataObject) -> None:
    """The same object of bytes where they are whole lines; gathered where rows are left out; and what was a field stays one."""
    schema = Schema.of({"a": str, "b": str})
    lines = "".join(f"{a},{b}\n" for a, b in rows).encode()
    columns = TextParser.make(schema, schema.names).parse(np.frombuffer(lines + bytes(READABLE), np.uint8), 0, len(lines), 1 << 20).columns
    text = TextRows(schema, ",")
    whole, _ = text.write(columns)
    assert whole.tobytes() == lines
    assert np.shares_memory(whole, columns["a"].data)
    kept = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=12))
    some, _ = text.write({name: column.take(np.array(kept)) for name, column in columns.items()})
    assert some.tobytes() == "".join(f"{rows[i][0]},{rows[i][1]}\n" for i in kept).encode()
    tampered = np.array(columns["a"].data)  # a byte inside a field, which the parser would never have left there
    inside = [i for i in range(len(lines)) if lines[i : i + 1] not in b",\n"]
    if inside:
        tampered[data.draw(st.sampled_from(inside))] = odd[0]
        spoilt = {name: replace(column, data=tampered) for name, column in columns.items()}
        _, unwritten = text.write(spoilt)
        assert len(unwritten) == (odd != b";")


ROW = {"n": 1, "small": 2, "x": 0.5, "flag": True, "at": 3000, "when": 4, "text": "a", "maybe": None, "exact": 5}


def test_a_record_as_it_stands_in_the_file() -> None:
    records, _ = TextRows(SCHEMA, ";").write(batch([ROW]).columns)
    assert records.tobytes() == b"1;2;0.5;true;3;1970-01-01T00:00:00.000004Z;a;;5000\n"


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [("text", "x" * 100 + "," + "y" * 30, "separator"), ("text", "a\nb", "line end"), ("at", 3001, "no whole number of ms")]
    + [("exact", us, "the years 1677 to 2262") for us in (NS_MAX_US + 1, -NS_MAX_US - 1, 2**61)]
    + [("when", us, "the years 1 to 9999") for us in (FOUR_DIGIT_YEARS_US[0] - 1, FOUR_DIGIT_YEARS_US[1] + 1, 2**61)],
)
def test_what_cannot_be_written_is_a_dead_letter(tmp_path: Path, field: str, value: object, reason: str) -> None:
    letters = DeadLetters()
    sink = opened(TextSink(str(tmp_path)), "out", 0, SCHEMA, letters)
    sink.send(batch([ROW, ROW | {field: value}, ROW | {"n": 9}]), 0, MIN_TIME, MIN_TIME)
    sink.send(End(), 0, MAX_TIME, MIN_TIME)
    assert [row["n"] for row in read_back((tmp_path / "out-00000.csv").read_bytes())] == [1, 9]
    assert letters.counts == {"out": 1}
    letter = letters.take(10)[0]
    assert repr(field) in letter.reason
    assert reason in letter.reason
    assert letter.source.endswith("out-00000.csv")


def test_a_file_holds_all_that_was_sent_however_it_is_cut_for_the_kernel(tmp_path: Path) -> None:
    sink = opened(TextSink(str(tmp_path), header=True), "out", 0, Schema.of({"text": str}), DeadLetters())
    texts = ["a" * length for length in (WRITE_BYTES - 7, 5, 2 * WRITE_BYTES + 1, WRITE_BYTES - 1)]
    for text in texts:
        rows = pa.RecordBatch.from_pydict({"text": [text]}, schema=Schema.of({"text": str}).arrow)
        sink.send(Batch(columns_from_arrow(rows, Schema.of({"text": str})), np.zeros(1, np.int64)), 0, MIN_TIME, MIN_TIME)
    sink.send(End(), 0, MAX_TIME, MIN_TIME)
    assert (tmp_path / "out-00000.csv").read_text().splitlines() == ["text", *texts]


def test_arrow_files_are_streams_that_arrow_reads(tmp_path: Path) -> None:
    sink = opened(ArrowSink(str(tmp_path / "new")), "out", 3, SCHEMA, DeadLetters())
    sink.send(batch([ROW]), 0, MIN_TIME, MIN_TIME)
    sink.send(batch([ROW | {"text": "b,\n"}]), 0, MIN_TIME, MIN_TIME)
    sink.send(End(), 0, MAX_TIME, MIN_TIME)
    with pa.ipc.open_stream(tmp_path / "new" / "out-00003.arrows") as reader:
        assert reader.read_all().to_pylist() == record_batch([ROW, ROW | {"text": "b,\n"}]).to_pylist()


def test_a_file_that_is_there_is_replaced_only_if_asked(tmp_path: Path) -> None:
    (tmp_path / "out-00000.csv").write_text("kept\n")
    with pytest.raises(ClusterError, match=r"out-00000.csv' is there already"):
        FileSink(TextSink(str(tmp_path)), "out", 0, SCHEMA, DeadLetters())
    sink = opened(TextSink(str(tmp_path), header=True, overwrite=True), "out", 0, SCHEMA, DeadLetters())
    sink.send(Fail("SQ1", 0, "cause"), 0, MIN_TIME, MIN_TIME)
    assert (tmp_path / ".out-00000.csv.staged").read_text() == "n,small,x,flag,at,when,text,maybe,exact\n"


def committed(folder: Path, attempt: int) -> CommittedSink:
    sink = FileSink(TextSink(str(folder)), "out", 0, SCHEMA, DeadLetters(), attempt=attempt)
    return CommittedSink(sink, Meter(), Account())


def test_an_attempt_removes_what_those_before_it_began_and_nothing_of_later_ones(tmp_path: Path) -> None:
    """A process that was frozen in the middle of attempt 1 wakes up when attempt 2 has staged a file, which a commit then shows."""
    first = committed(tmp_path, 0)
    first.send(batch([ROW]), 0, MIN_TIME, MIN_TIME)
    first.stage_for(1)
    kept = first.kept()
    first.send(batch([ROW]), 0, MIN_TIME, MIN_TIME)
    first.stage_for(2)  # which is not committed
    frozen, later = committed(tmp_path, 1), committed(tmp_path, 2)
    later.restore(kept)
    shown = sorted(tmp_path.iterdir())
    assert len(shown) == 1 and not shown[0].name.startswith(".")
    later.send(batch([ROW]), 0, MIN_TIME, MIN_TIME)
    later.stage_for(3)
    frozen.restore(kept)
    later.cover(3)
    names = [each.name for each in sorted(tmp_path.iterdir())]
    assert len(names) == 2 and not [name for name in names if name.startswith(".")]


class DyingStore(MemoryStore):
    """Its process dies before the rename of that number."""

    left = 0

    def rename(self, path: str, name: str) -> None:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        super().rename(path, name)


def test_a_death_between_two_renames_and_another_while_they_are_done_again() -> None:
    store, kept = DyingStore(), {}
    store.make_folder("/o")
    sink = FileSink(TextSink("/o"), "out", 0, SCHEMA, DeadLetters(), store)
    first = CommittedSink(sink, Meter(), Account())
    for number in range(1, 8):
        first.send(batch([ROW | {"n": number}]), 0, MIN_TIME, MIN_TIME)
        first.stage_for(number)
        kept = first.kept()
    for attempt, renames in ((0, 3), (1, 2), (2, 99)):
        store.left = renames
        going_on = (
            first
            if not attempt
            else CommittedSink(FileSink(TextSink("/o"), "out", 0, SCHEMA, DeadLetters(), store, attempt), Meter(), Account())
        )
        with pytest.raises(KeyboardInterrupt) if renames < 7 else nullcontext():
            going_on.cover(7) if not attempt else going_on.restore(kept)
    names = store.names("/o")
    assert len(names) == 7 and not [name for name in names if name.startswith(".")]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ClusterError, match="file/inside"):
        FileSink(TextSink(str(tmp_path / "file" / "inside")), "out", 0, SCHEMA, DeadLetters())


def test_the_document_of_an_output_with_files() -> None:
    document = {"folder": "/answers", "format": "text", "separator": ";", "header": True, "overwrite": False}
    query = queries.from_json({"name": "q", "outputs": [{"stream": "out", "input": "in", "files": document}]})
    assert query.outputs == (Output("out", "in", TextSink("/answers", separator=";", header=True)),)
    assert queries.to_json(query)["outputs"][0]["files"] == document


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"folder": "/a", "format": "json"}, "/outputs/0/files/format"),
        ({"folder": "/a", "separator": "::"}, "/outputs/0/files/separator"),
        ({"folder": 3}, "/outputs/0/files/folder"),
        ({"folder": "/a", "compress": True}, "/outputs/0/files/compress"),
        ({}, "/outputs/0/files"),
    ],
)
def test_what_is_wrong_with_the_files_of_an_output_is_pointed_at(document: object, pointer: str) -> None:
    with pytest.raises(QueryError) as caught:
        queries.from_json({"name": "q", "outputs": [{"stream": "out", "input": "in", "files": document}]})
    assert caught.value.pointer == pointer
