"""Text files read in pieces: the pieces, late rows and letters included, say what the whole says, and nothing of a piece has to wait."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.sources.blocks import cut_blocks
from cep.dataflow.sources.files import FileSource
from cep.dataflow.sources.source import Reading
from cep.dataflow.sources.text import TextFormat
from cep.elements import MAX_TIME, Batch
from cep.kernels.jit import interpreted
from cep.model.expr import col
from cep.model.schema import Schema
from cep.model.streams import Stream, TextFiles
from cep.world.store import DiskStore

SCHEMA = Schema.of({"ts": "timestamp[ms]", "n": "int64"})
#: By how much time goes on, at most back by one; a record may be bad.
RECORDS = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 2, -1]), st.sampled_from([True] * 9 + [False])), min_size=1, max_size=60)


def read(path: Path, disorder: int, read_bytes: int) -> tuple[list[tuple[int, ...]], int, dict[str, int], list[tuple[Batch, int]]]:
    """(time, value, record) of each row, late rows, counts of dead letters, and each batch with the watermark behind it."""
    stream = Stream("s", SCHEMA, col("ts"), disorder, TextFiles((str(path),), block_bytes=1024))
    letters = DeadLetters()
    format_ = TextFormat.of(stream, SCHEMA.names, read_bytes, DiskStore())
    blocks = cut_blocks(stream, [(str(path), path.stat().st_size)], format_)
    source = FileSource(Reading(stream, 0, 1, 0, True, SCHEMA, letters, lambda: 0, DiskStore()), format_, blocks)
    batches: list[tuple[Batch, int]] = []
    while not source.ended:
        batch = source.read()
        if batch is not None and len(batch):
            batches.append((batch, source.watermark))
    rows = [row for batch, _ in batches for row in zip(*_columns(batch), strict=True)]
    return rows, source.late_rows, dict(letters.counts), batches


def _columns(batch: Batch) -> tuple[list[int], ...]:
    assert batch.origin is not None
    return batch.time.tolist(), batch.columns["n"].values.tolist(), batch.origin[:, 0].tolist(), batch.origin[:, 1].tolist()


@given(RECORDS, st.integers(0, 2), st.integers(16, 200))
def test_pieces_say_what_the_whole_says(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[int, bool]], disorder: int, read_bytes: int
) -> None:
    path, now = tmp_path_factory.mktemp("files") / "records.csv", 100
    with path.open("w") as file:
        for number, (step, good) in enumerate(records):
            now += step
            file.write(f"{now},{number if good else 'x'}\n")
    with interpreted():
        assert read(path, 1000 * disorder, read_bytes)[:3] == read(path, 1000 * disorder, 1 << 20)[:3]


def test_nothing_of_what_was_read_waits_for_the_rest_of_an_instant(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_text("".join(f"{100 + number // 3},{number}\n" for number in range(40)))
    with interpreted():
        rows, _, _, batches = read(path, 0, 64)
    assert [number for _, number, *_ in rows] == list(range(40)) and len(batches) > 3
    assert all(int(batch.time.max()) < watermark for batch, watermark in batches)
    assert all(int(after.time[0]) == watermark for (_, watermark), (after, _) in pairwise(batches))
    assert batches[-1][1] == MAX_TIME


@pytest.mark.parametrize("header", [False, True])
def test_a_byte_order_mark_is_skipped(tmp_path: Path, header: bool) -> None:
    """Before, the first record was a dead letter. Offsets count it, and one elsewhere is no mark."""
    path = tmp_path / "marked.csv"
    path.write_bytes(b"\xef\xbb\xbf" + b"ts,n\n" * header + b"1,10\n2,20\n\xef\xbb\xbf3,30\n")
    stream = Stream("s", SCHEMA, col("ts"), 0, TextFiles((str(path),), header=header))
    letters, format_ = DeadLetters(), TextFormat.of(stream, SCHEMA.names, 1 << 20, DiskStore())
    blocks = cut_blocks(stream, [(str(path), path.stat().st_size)], format_)
    source = FileSource(Reading(stream, 0, 1, 0, True, SCHEMA, letters, lambda: 0, DiskStore()), format_, blocks)
    batch = source.read()
    assert batch is not None
    assert batch.columns["n"].values.tolist() == [10, 20]
    (letter,) = letters.letters
    assert letter.position == f"byte {path.stat().st_size - 8}"
