"""What every sink has to keep: what it was given is shown whole or not at all, exactly as it was given, however often it is asked.

A new format is added to `SINKS`: its description, and how its files are read by other programs.

Tests `json_lines.py`, `sink.py`, `staged.py`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cep.dataflow.channel import Inbox, LocalChannel
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.instance import SubqueryInstance
from cep.dataflow.meter import Account, Meter
from cep.dataflow.nodes import Input, Node
from cep.dataflow.operators.operator import PassOperator
from cep.dataflow.outputs.balancer import Broadcast
from cep.dataflow.outputs.output import EdgeOutput
from cep.dataflow.outputs.sink import WRITERS, FileSink, SinkChannel
from cep.dataflow.outputs.staged import Staged
from cep.dataflow.sources.blocks import cut_blocks
from cep.dataflow.sources.json_lines import JsonLinesParser
from cep.dataflow.sources.opening import format_of
from cep.elements import MAX_TIME, MIN_TIME, Batch, Element, End, Fail, Stop
from cep.errors import ClusterError
from cep.kernels.columns import columns_from_arrow, to_arrow
from cep.kernels.jit import interpreted
from cep.kernels.text import READABLE
from cep.model.schema import Schema
from cep.model.sinks import SINK_FORMATS, ArrowSink, JsonLinesSink, ParquetSink, SinkFiles, TextSink
from cep.model.streams import JsonLinesFiles, ParquetFiles, SourceFiles, Stream
from cep.model.times.iso_instants import FOUR_DIGIT_YEARS_US
from cep.world.store import DiskStore, MemoryStore

SCHEMA = Schema.of({"n": "int64", "x": "float64?", "s": "string?", "t": "timestamp[ms]", "when": "timestamp", "b": "bool"})
WHEN = datetime(2020, 1, 1, 12, 30, 15, 250, tzinfo=UTC)
ROWS = [
    {
        "n": n,
        "x": (0.1, None, -1e300)[n % 3],
        "s": ("a", "ä", "x" * 300)[n % 3],
        "t": WHEN.replace(microsecond=n * 1000),
        "when": WHEN,
        "b": n > 3,
    }
    for n in range(10)
]
Rows = list[dict[str, Any]]


def _text(data: bytes) -> Rows:
    lines = [line.split(",") for line in data.decode().splitlines()]
    return [
        {"n": int(n), "x": float(x) if x else None, "s": s, "t": _ms(int(t)), "when": datetime.fromisoformat(when), "b": b == "true"}
        for n, x, s, t, when, b in lines
    ]


def _ms(instant: int) -> datetime:
    return datetime.fromtimestamp(instant / 1000, UTC)


def _jsonl(data: bytes) -> Rows:
    rows = [json.loads(line) for line in data.splitlines()]
    return [row | {"t": _ms(row["t"]), "when": datetime.fromisoformat(row["when"])} for row in rows]


@dataclass(frozen=True)
class Kind:
    files: Callable[..., SinkFiles]
    read: Callable[[bytes], Rows]


SINKS = {
    "text": Kind(TextSink, _text),
    "arrow": Kind(ArrowSink, lambda data: pa.ipc.open_stream(data).read_all().to_pylist()),
    "jsonl": Kind(JsonLinesSink, _jsonl),
    "parquet": Kind(ParquetSink, lambda data: pq.read_table(io.BytesIO(data)).to_pylist()),
}
kinds = pytest.mark.parametrize("kind", SINKS.values(), ids=SINKS)


def test_every_sink_is_here() -> None:
    assert {cls.format for cls in WRITERS} == set(SINK_FORMATS) == set(SINKS)


def batch(rows: Rows, schema: Schema = SCHEMA) -> Batch:
    columns = columns_from_arrow(pa.RecordBatch.from_pylist(rows, schema.arrow), schema)
    return Batch(columns, np.arange(len(rows), dtype=np.int64))


def opened(kind: Kind, store: MemoryStore, overwrite: bool = False) -> FileSink:
    return FileSink(kind.files("/out", overwrite=overwrite), "s", 3, SCHEMA, DeadLetters(), store)


def data_of(store: MemoryStore, name: str) -> bytes:
    file = store.open(f"/out/{name}")
    data = bytearray(file.size())
    assert file.read_at(memoryview(data), 0) == len(data)
    return bytes(data)


def final_name(kind: Kind) -> str:
    return f"s-00003.{kind.files('/out').suffix}"


@kinds
@pytest.mark.parametrize("cuts", [(10,), (1,) * 10, (3, 0, 7)])
def test_exactly_what_was_given_is_shown_whole(kind: Kind, cuts: tuple[int, ...]) -> None:
    store, start = MemoryStore(), 0
    sink = opened(kind, store)
    for rows in cuts:
        sink.write(batch(ROWS[start : start + rows]))
        start += rows
        assert store.names("/out") == [f".{final_name(kind)}.staged"]
    staged = sink.stage()
    assert staged is not None and store.names("/out") == [f".{final_name(kind)}.staged"]
    for _ in range(2):  # a caller that is not sure asks again
        sink.finish(staged)
        assert store.names("/out") == [final_name(kind)]
    data = data_of(store, final_name(kind))
    assert len(data) == staged.bytes
    assert kind.read(data) == ROWS


@kinds
def test_what_comes_behind_a_stage_is_another_file(kind: Kind) -> None:
    store = MemoryStore()
    sink = opened(kind, store)
    sink.write(batch(ROWS[:4]))
    first = sink.stage()
    assert first is not None and sink.stage() is None
    sink.write(batch(ROWS[4:]))
    second = sink.stage()
    assert second is not None
    sink.finish(second)
    another = final_name(kind).replace(".", "-00001.")
    assert sorted(store.names("/out")) == sorted([f".{final_name(kind)}.staged", another])
    opened_again = FileSink(replace_folder(kind), "s", 4, SCHEMA, DeadLetters(), store)  # as after a checkpoint
    opened_again.finish(first)
    assert kind.read(data_of(store, final_name(kind))) + kind.read(data_of(store, another)) == ROWS


def replace_folder(kind: Kind) -> SinkFiles:
    return replace(kind.files("/out"), overwrite=True)  # type: ignore[type-var]


@kinds
@pytest.mark.parametrize(("last", "shown"), [(End(), True), (Stop(), True), (Fail("SQ1", 0, "cause"), False)])
def test_what_a_failed_query_gave_stays_staged_and_is_whole(kind: Kind, last: Element, shown: bool) -> None:
    store = MemoryStore()
    channel = SinkChannel(opened(kind, store), Meter(), Account())
    channel.send(batch(ROWS), 0, MIN_TIME, MIN_TIME)
    channel.send(last, 0, MAX_TIME, MIN_TIME)
    name = final_name(kind) if shown else f".{final_name(kind)}.staged"
    assert store.names("/out") == [name]
    assert kind.read(data_of(store, name)) == ROWS


@kinds
def test_what_is_there_already_is_replaced_only_if_asked(kind: Kind) -> None:
    store = MemoryStore()
    for rows in (ROWS[:2], ROWS):
        channel = SinkChannel(opened(kind, store, overwrite=True), Meter(), Account())
        channel.send(batch(rows), 0, MIN_TIME, MIN_TIME)
        channel.send(End(), 0, MAX_TIME, MIN_TIME)
    assert kind.read(data_of(store, final_name(kind))) == ROWS
    with pytest.raises(ClusterError, match=f"/out/{final_name(kind)}' is there already"):
        opened(kind, store)


@kinds
def test_what_was_removed_is_told(kind: Kind) -> None:
    store = MemoryStore()
    sink = opened(kind, store)
    sink.write(batch(ROWS))
    staged = sink.stage()
    assert staged is not None
    store.remove(staged.path)
    with pytest.raises(ClusterError, match="it was removed"):
        sink.finish(staged)


@kinds
def test_writes_that_are_cut_short_are_gone_on_with(kind: Kind) -> None:
    store = MemoryStore(write_bytes_max=7)
    sink = opened(kind, store)
    sink.write(batch(ROWS))
    staged = sink.stage()
    assert staged is not None
    sink.finish(staged)
    data = data_of(store, final_name(kind))
    assert len(data) == staged.bytes and kind.read(data) == ROWS


@kinds
def test_a_full_disk_shows_nothing(kind: Kind) -> None:
    store = MemoryStore(bytes_max=100, write_bytes_max=64)
    with pytest.raises(ClusterError, match=f"{final_name(kind)}"):
        sink = opened(kind, store)
        for _ in range(100):
            sink.write(batch(ROWS))
        sink.stage()
    assert final_name(kind) not in store.names("/out")


@kinds
def test_a_query_that_failed_for_a_full_disk_fails_whole(kind: Kind) -> None:
    """What cannot be written at its end is not its instance's end: it says that it has failed, and to all of its outputs."""
    store = MemoryStore(bytes_max=1 << 10)
    channel = SinkChannel(opened(kind, store), Meter(), Account())
    with suppress(ClusterError):  # Parquet's rows wait
        for _ in range(100):
            channel.send(batch(ROWS), 0, MIN_TIME, MIN_TIME)
    channel.send(Fail("SQ1", 0, "the disk is full"), 0, MAX_TIME, MIN_TIME)
    assert final_name(kind) not in store.names("/out")


@kinds
def test_a_stream_that_cannot_be_shown_has_not_ended(kind: Kind) -> None:
    """Its instance has failed, with the reason, and no output of it has heard of an end."""
    store, node, beside = MemoryStore(), Node(PassOperator("n")), Inbox("beside", 1 << 20)
    node.feed("in")
    channels = [LocalChannel(beside), SinkChannel(opened(kind, store), Meter(), Account())]
    node.outputs = [EdgeOutput(f"q/{i}", Broadcast(1), [channel], SCHEMA.names) for i, channel in enumerate(channels)]
    instance = SubqueryInstance("q", "SQ1", 0, [node], [Input(node, "in", [])], [], node.outputs, DeadLetters())
    instance.run()
    for name in store.names("/out"):
        store.remove(f"/out/{name}")
    with pytest.raises(ClusterError, match="it was removed"):
        instance.close(End())
    assert instance.state == "running" and not beside.queue
    instance.fail("it was removed")
    assert instance.state == "failed" and [type(element) for element, *_ in beside.queue] == [Fail]


# --- what a source of ours reads again ----------------------------------------------------------------------------------

WIDE = Schema.of(
    {
        "i": "int32?",
        "f": "float64",
        "l": "list<int64>?",
        "lt": "list<timestamp>?",
        "ls": "list<timestamp[s]>",
        "bin": "binary?",
        "text": "string",
        "ns": "timestamp[ns]",
    }
)
WIDE_ROWS = [
    {"i": None, "f": float("inf"), "l": None, "lt": [WHEN, None], "ls": [], "bin": b"ab", "text": '",\n\\ \u2028 \x00', "ns": WHEN},
    {"i": -5, "f": -0.0, "l": [None, -(2**63)], "lt": None, "ls": [WHEN.replace(microsecond=0)], "bin": None, "text": "", "ns": WHEN},
    {"i": 2**31 - 1, "f": 5e-324, "l": [], "lt": [], "ls": [None], "bin": b"", "text": "ä" * 1000, "ns": WHEN},
]


@pytest.mark.parametrize(("files", "read"), [(JsonLinesSink, JsonLinesFiles), (ParquetSink, ParquetFiles)], ids=["jsonl", "parquet"])
def test_a_source_reads_the_same_rows(files: Callable[[str], SinkFiles], read: Callable[..., SourceFiles], tmp_path: Path) -> None:
    sink = FileSink(files(str(tmp_path)), "s", 0, WIDE, DeadLetters())
    sink.write(batch(WIDE_ROWS, WIDE))
    staged = sink.stage()
    assert isinstance(staged, Staged)
    sink.finish(staged)
    (path,) = tmp_path.iterdir()
    stream = Stream("s", WIDE, files=read((str(path),)))
    with interpreted():
        reads = format_of(stream, WIDE.names, DiskStore())
        reads.warm()
        (block,) = cut_blocks(stream, [(str(path), path.stat().st_size)], reads)
        reader = reads.open(block)
        piece = reader.read(block.start)
        reader.close()
    assert not piece.bad
    assert pa.table({name: to_arrow(piece.columns[name]) for name in WIDE.names}).to_pylist() == WIDE_ROWS


def test_rows_that_json_has_no_place_for_are_letters(tmp_path: Path) -> None:
    letters, schema = DeadLetters(), Schema.of({"b": "binary", "t": "timestamp[ms]", "l": "list<timestamp[s]>?"})
    good = {"b": b"x", "t": WHEN.replace(microsecond=0), "l": None}
    odd = [good | {"b": b"\xff"}, good | {"t": WHEN}, good | {"l": [None, WHEN]}]
    sink = FileSink(JsonLinesSink(str(tmp_path)), "s", 0, schema, letters)
    sink.write(batch([good, *odd, good], schema))
    staged = sink.stage()
    assert staged is not None and len(Path(staged.path).read_text().splitlines()) == 2
    assert letters.counts == {"s": 3}
    assert ["'b'" in letter.reason or "'t'" in letter.reason or "'l'" in letter.reason for letter in letters.letters] == [True] * 3


@pytest.mark.parametrize(
    ("type_", "first", "last"), [("timestamp", *FOUR_DIGIT_YEARS_US), ("timestamp[ns]", -((2**63 - 1) // 1000), (2**63 - 1) // 1000)]
)
def test_json_has_the_instants_that_it_is_read_with_and_the_others_are_letters(type_: str, first: int, last: int, tmp_path: Path) -> None:
    """Before, ns wrapped around, and an instant of a year behind 9999 was written as one of another year."""
    letters, schema = DeadLetters(), Schema.of({"t": f"{type_}?", "l": f"list<{type_}>"})
    wanted = [{"t": first, "l": [last, None]}, {"t": None, "l": []}]
    odd = [{"t": first - 1, "l": []}, {"t": last + 1, "l": []}, {"t": 2**61, "l": []}, {"t": None, "l": [0, first - 1]}]
    sink = FileSink(JsonLinesSink(str(tmp_path)), "s", 0, schema, letters)
    sink.write(batch([*odd, *wanted], schema))
    staged = sink.stage()
    assert staged is not None and letters.counts == {"s": 4}
    data = Path(staged.path).read_bytes()
    with interpreted():
        parsed = JsonLinesParser(schema, set(schema.names), None).parse(np.frombuffer(data + bytes(READABLE), np.uint8), 0, len(data), 10)
    assert not parsed.bad
    columns = {name: to_arrow(column) for name, column in parsed.columns.items()}
    assert columns["t"].cast(pa.int64()).to_pylist() == [row["t"] for row in wanted]
    assert columns["l"].cast(pa.list_(pa.int64())).to_pylist() == [row["l"] for row in wanted]
