"""Files of rows as pieces: what is a row of each format, and its number."""

from __future__ import annotations

import json
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
from driver.rows.publishing import FileSending
from driver.rows.row_files import PIECE_ROWS, RowFileFormat, format_of, pieces_of
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
    ("odd", "why"),
    [
        (b'"a', "',' expected after '\"'"),
        (b'"p"q', "',' expected after '\"'"),
        (b"\xffq", "a byte of line 3 is not UTF-8"),
        (b"q" * (3 << 20), "the line is longer than 1,048,576 characters"),
    ],
    ids=["open", "behind a quote", "not UTF-8", "long"],
)
def test_what_is_no_csv_costs_one_line(odd: bytes, why: str) -> None:
    """Before, it ended the file, and the rows before it that had not been sent were lost with it."""
    found, refused = read(b"s\na\n" + odd + b'\nb\n"c\nd"\n' + b"q" * 500_000 + b"\ne", RowFileFormat.CSV)
    assert [(number, row["s"]) for number, row in found] == [(2, "a"), (4, "b"), (5, "c\nd"), (7, "q" * 500_000), (8, "e")]
    assert [number for number, _ in refused] == [3] and f"it is no CSV: {why}" in refused[0][1]


class Taking:
    """Holds what it is sent to the stream, as a publisher does."""

    stream = Stream("s", Schema.of({"n": "int32", "s": "string"}))

    def __init__(self) -> None:
        self.rows: list[int] = []

    def send(self, data: Any) -> int:
        sent = [row["n"] for batch in record_batches(data, self.stream) for row in batch.to_pylist()]
        self.rows += sent
        return len(sent)


@pytest.mark.parametrize("format_", [RowFileFormat.ARROW, RowFileFormat.JSONL])
def test_all_rows_but_those_that_do_not_fit_are_sent_in_their_order(format_: RowFileFormat, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the row that is found to be wrong first, of the first field, is behind another one. And a batch of Arrow may have any
    number of rows, each of which would be looked at again for each that does not fit: it goes in pieces."""
    numbers = [2**40 if n in (3, 4, 50) else n for n in range(3 * PIECE_ROWS if format_ == RowFileFormat.ARROW else 60)]
    texts = [None if n in (0, 10, 59) else "a" for n in range(len(numbers))]
    batch, sink = pa.record_batch({"n": numbers, "s": texts}), BytesIO()
    if format_ == RowFileFormat.ARROW:
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
    else:
        sink.write("\n".join(map(json.dumps, batch.to_pylist())).encode())
    publisher = Taking()
    sending = FileSending(BufferedReader(BytesIO(sink.getvalue())), publisher)  # type: ignore[arg-type]
    sending.send(format_)
    assert publisher.rows == [n for n, text in zip(numbers, texts, strict=True) if n < 2**40 and text]
    assert (sending.sent, sending.refused) == (len(numbers) - 6, 6)
    said = capsys.readouterr().err
    assert all(f":{n + 1}: stream 's', field" in said for n in (0, 3, 4, 10, 50, 59))
    largest = max(len(piece.numbers) for piece in pieces_of(BufferedReader(BytesIO(sink.getvalue())), format_, publisher.stream, print))
    assert largest <= PIECE_ROWS


@pytest.mark.parametrize(
    ("content", "format_", "why"),
    [
        (b"nothing", RowFileFormat.PARQUET, "it is no Parquet"),
        (b"nothing at all", RowFileFormat.ARROW, "it is no Parquet or Arrow"),
        (b"s,x\n", RowFileFormat.CSV, "line 1: no column 'x'"),
        (b"", RowFileFormat.CSV, "expected the names of columns"),
        (b'"s', RowFileFormat.CSV, "it is no CSV: unexpected end"),
        (b"s,\xff\n", RowFileFormat.CSV, "it is no CSV: a byte of line 1 is not UTF-8"),
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
