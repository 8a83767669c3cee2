"""Queries over text files, and the files: broken lines, either line end, headers, small blocks."""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from cep.model.query import Query
from cep.model.schema import UNIT_US, Field
from cep.model.streams import ArrowFiles, JsonLinesFiles, ParquetFiles, Stream, TextFiles
from tests.reference.rows import Partition
from tests.strategies.queries import queries
from tests.strategies.streams import EPOCHS, rows, streams
from tests.support.kinds import KINDS


@dataclass(frozen=True)
class FileCase:
    """A query over one stream of text files, and their contents by path."""

    query: Query
    files: Mapping[str, bytes]

    @property
    def stream(self) -> Stream:
        return self.query.streams[0]


@st.composite
def file_cases(draw: DrawFn, operators_max: int = 3) -> FileCase:
    query = draw(file_queries(operators_max))
    return FileCase(query, draw(contents_of(query)))


@st.composite
def file_queries(draw: DrawFn, operators_max: int = 3, name: str = "s", kinds: Collection[str] = KINDS) -> Query:
    """Over the stream `name`."""
    stream = draw(streams(name))
    paths = draw(st.sampled_from((("a.txt",), ("a.txt", "b.txt"))))
    text = TextFiles(paths, draw(st.sampled_from(",;\t")), draw(st.booleans()), draw(st.sampled_from((1 << 20, 1024, 1024))))
    return draw(queries([replace(stream, files=text)], operators_max, kinds))


@st.composite
def contents_of(draw: DrawFn, query: Query) -> dict[str, bytes]:
    """What is in the files of its stream, by path."""
    (stream,) = query.streams
    assert isinstance(stream.files, TextFiles)
    epoch = draw(st.sampled_from(EPOCHS))
    return {path: draw(contents(stream, epoch)) for path in stream.files.paths}


@st.composite
def contents(draw: DrawFn, stream: Stream, epoch: int) -> bytes:
    """A file: lines with either line end, some broken, maybe padded so that few make a block, maybe no last newline."""
    assert isinstance(stream.files, TextFiles)
    padding = draw(st.sampled_from((0, 150, 400))) if stream.files.block_bytes == 1024 else 0
    lines = [draw(lines_of(row, stream, padding)) for row in draw(rows(stream, epoch, 20))]
    head = [",".join(stream.schema.names).encode() + b"\n"] if stream.files.header else []
    data = b"".join(head + lines)
    return data.removesuffix(b"\n") if draw(st.booleans()) and not data.endswith(b"\r\n") else data


@st.composite
def lines_of(draw: DrawFn, row: tuple[Any, ...], stream: Stream, padding: int) -> bytes:
    assert isinstance(stream.files, TextFiles)
    separator = stream.files.separator.encode()
    texts = [text_of(value, f, separator) for value, f in zip(row, stream.schema.fields, strict=True)]
    if draw(st.integers(0, 11)) == 11:
        texts = draw(_broken(texts))
    if padding:
        texts.append(b" " * padding)  # one field more than the schema has, which is not looked at
    if padding and draw(st.integers(0, 30)) == 30:
        texts.append(b"-" * stream.files.block_bytes)
    return separator.join(texts) + draw(st.sampled_from((b"\n", b"\r\n")))


@st.composite
def _broken(draw: DrawFn, texts: list[bytes]) -> list[bytes]:
    """A record with too few fields, or with one field that is empty, no number, out of range, or not UTF-8."""
    place = draw(st.integers(0, len(texts) - 1))
    if draw(st.booleans()):
        return texts[:place] or [b""]
    wrong = draw(st.sampled_from((b"", b"nonsense", b"9" * 30, b"1.2.3", b"--1", b" 1", b"\xff\xfe", b"12x")))
    return [*texts[:place], wrong, *texts[place + 1 :]]


def text_of(value: Any, field: Field, separator: bytes) -> bytes:
    """A cell as a file holds it: a timestamp in its declared unit; NULL is empty, which a text column reads as that."""
    match field.type.name:
        case _ if value is None:
            return b""
        case "bool":
            return b"true" if value else b"false"
        case "timestamp":
            return str(value // UNIT_US[field.type.unit]).encode()
        case "string" | "binary":
            raw = value if isinstance(value, bytes) else value.encode()
            return raw.replace(separator, b"_").replace(b"\n", b"_").replace(b"\r", b"_")
    return repr(value).encode()


# --- other formats than text ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WrittenCase:
    """A query over a file of another format, the file, and the partitions that are in it."""

    case: FileCase
    partitions: list[Partition]


@st.composite
def written_cases(draw: DrawFn, operators_max: int = 2) -> WrittenCase:
    stream = draw(streams("s"))
    format_ = draw(st.sampled_from((JsonLinesFiles, ParquetFiles, ArrowFiles)))
    declared = replace(stream, files=JsonLinesFiles(("a",), 1024) if format_ is JsonLinesFiles else format_(("a",)))
    query = draw(queries([declared], operators_max))
    found = draw(rows(stream, draw(st.sampled_from(EPOCHS)), 20))
    if format_ is JsonLinesFiles:
        found = [tuple(_utf8(value) for value in row) for row in found]
        data, parts = _json_lines(found, stream, 1024)
    else:
        data, parts = _columns(found, stream, draw(st.integers(1, 8)), format_ is ParquetFiles)
    return WrittenCase(FileCase(query, {"a": data}), [Partition(index, part, file="a") for index, part in enumerate(parts)])


def _utf8(value: Any) -> Any:
    return value.decode(errors="replace").encode() if isinstance(value, bytes) else value


def _json_lines(found: list[tuple[Any, ...]], stream: Stream, block_bytes: int) -> tuple[bytes, list[list[tuple[Any, ...]]]]:
    """Some objects lack what is NULL."""
    data, parts = b"", dict[int, list[tuple[Any, ...]]]()
    for number, row in enumerate(found):
        cells = {
            f.name: _json_cell(value, f) for f, value in zip(stream.schema.fields, row, strict=True) if number % 2 or value is not None
        }
        parts.setdefault(len(data) // block_bytes, []).append(row)
        data += json.dumps(cells, ensure_ascii=number % 3 == 0).encode() + b"\n"
    return data, [parts.get(block, []) for block in range(max(parts, default=-1) + 1)]


def _json_cell(value: Any, field: Field) -> Any:
    if value is not None and field.type.name == "timestamp":
        return value // UNIT_US[field.type.unit]
    return value.decode() if isinstance(value, bytes) else value


def _columns(found: list[tuple[Any, ...]], stream: Stream, part: int, parquet: bool) -> tuple[bytes, list[list[tuple[Any, ...]]]]:
    """With a column more than the stream has."""
    schema = pa.schema([(f.name, f.type.arrow) for f in stream.schema.fields])
    rows_ = [dict(zip(stream.schema.names, row, strict=True)) for row in found]
    table = pa.Table.from_pylist(rows_, schema).append_column("more", pa.array(["x"] * len(found), pa.string()))
    out = io.BytesIO()
    if parquet:
        pq.write_table(table, out, row_group_size=part)
    else:
        with pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=part)
    return out.getvalue(), [found[start : start + part] for start in range(0, len(found), part)]
