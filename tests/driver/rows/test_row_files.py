"""Files of rows as pieces: what is a row of each format, and its number."""

from __future__ import annotations

from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from cep.errors import CepError
from cep.model.schema import Schema
from cep.model.streams import Stream
from driver.rows.json_rows import lines
from driver.rows.row_files import RowFileFormat, format_of, pieces_of
from driver.streams.arrow import record_batches

STREAM = Stream("s", Schema.of({"k": "int64?", "t": "timestamp[ms]?", "b": "binary?", "l": "list<int64>?", "f": "float64?", "s": "string"}))
ROWS = [
    {"k": 1, "t": 5, "b": b"ab", "l": [1, None], "f": float("inf"), "s": 'a,"b"\nc'},
    {"k": None, "t": None, "b": b"", "l": None, "f": None, "s": ""},
]


def read(content: bytes, format_: RowFileFormat) -> tuple[list[tuple[int, Any]], list[tuple[int, str]]]:
    """(number, row) of all that fit together, and of what was refused."""
    found: list[tuple[int, Any]] = []
    refused: list[tuple[int, str]] = []

    def take(data: Any, numbers: Any) -> int:
        rows = [row for batch in record_batches(data, STREAM) for row in batch.to_pylist()]
        found.extend(zip(numbers, rows, strict=True))
        return len(rows)

    for piece in pieces_of(BufferedReader(BytesIO(content)), format_, STREAM, lambda *each: refused.append(each)):  # type: ignore[arg-type]
        piece.send_by(lambda data, numbers=piece.numbers: take(data, numbers), STREAM)  # type: ignore[misc]
    return found, refused


def test_the_same_rows_in_every_format(tmp_path: Path) -> None:
    (batch,) = record_batches(ROWS, STREAM)
    pyarrow.parquet.write_table(pa.Table.from_batches([batch]), tmp_path / "p", row_group_size=1)
    pyarrow.feather.write_feather(pa.Table.from_batches([batch]), str(tmp_path / "a"))
    sink = BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    separated = b'\xef\xbb\xbfk,t,b,l,f,s\r\n1,1970-01-01T00:00:00.005Z,ab,"[1, null]",inf,"a,""b""\nc"\r\n,,,,,\r\n'
    contents = {
        RowFileFormat.JSONL: [("\n".join(lines(batch))).encode()],
        RowFileFormat.CSV: [separated],
        RowFileFormat.PARQUET: [(tmp_path / "p").read_bytes()],
        RowFileFormat.ARROW: [(tmp_path / "a").read_bytes(), sink.getvalue()],
    }
    for format_, each in contents.items():
        for content in each:
            found, refused = read(content, format_)
            assert ([row for _, row in found], refused) == (batch.to_pylist(), []), format_
            assert [number for number, _ in found] == ([2, 4] if format_ is RowFileFormat.CSV else [1, 2]), format_


def test_what_is_no_row_is_refused_with_its_line_and_the_others_are_read() -> None:
    found, refused = read(b'{"s": "a"}\n{"s": \n\n {"s": "b"}\n\xff\n{"s": "c"}', RowFileFormat.JSONL)
    assert [(number, row["s"]) for number, row in found] == [(1, "a"), (4, "b"), (6, "c")]
    assert [number for number, _ in refused] == [2, 5] and "it is no JSON: byte 0 is not UTF-8" in refused[1][1]
    found, refused = read(b'{"s": "a", "s": "b"}\n{"s": "c"}', RowFileFormat.JSONL)
    assert [row["s"] for _, row in found] == ["c"] and "The key 's' stands twice" in refused[0][1]
    found, refused = read(b"s,k,l\na,1,[1]\nb\nc,1,[\nd,+2,\n", RowFileFormat.CSV)
    assert [(number, row["s"], row["k"]) for number, row in found] == [(2, "a", 1), (5, "d", 2)]
    assert [number for number, _ in refused] == [3, 4] and "expected list<int64>, got '['" in refused[1][1]


@pytest.mark.parametrize(
    ("content", "format_", "why"),
    [
        (b"nothing", RowFileFormat.PARQUET, "it is no Parquet"),
        (b"nothing at all", RowFileFormat.ARROW, "it is no Parquet or Arrow"),
        (b"s,x\n", RowFileFormat.CSV, "line 1: no column 'x'"),
        (b"", RowFileFormat.CSV, "expected the names of columns"),
        (b's\n"a', RowFileFormat.CSV, "it is no CSV"),
        (b"s\n\xff", RowFileFormat.CSV, "it is no CSV"),
        (b" " * (2 << 20), RowFileFormat.JSONL, "line 1 is longer than 1,048,576 bytes"),
    ],
)
def test_what_is_no_such_file(content: bytes, format_: RowFileFormat, why: str) -> None:
    with pytest.raises(CepError, match=why):
        read(content, format_)


def test_the_format_is_that_of_the_name() -> None:
    assert [format_of(name) for name in ("a.JSONL", "<stdin>", "a.csv", "a.feather")] == ["jsonl", "jsonl", "csv", "arrow"]
    with pytest.raises(CepError, match=r"x\.txt: its name ends in none of"):
        format_of("x.txt")
