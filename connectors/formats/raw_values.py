"""Raw: a value is what it is, the one column of the stream, of type string or binary."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import pyarrow as pa

from connectors.contract.errors import ConnectorError
from connectors.contract.formats import Decoded, ValueFormat
from connectors.formats.reading_apart import read_apart


class RawFormat(ValueFormat):
    """The bytes themselves; in files a line."""

    suffix: ClassVar[str] = ".txt"
    media: ClassVar[str] = "text/plain"

    def check(self, schema: pa.Schema) -> None:
        if len(schema) != 1 or not (pa.types.is_string(schema.field(0).type) or pa.types.is_binary(schema.field(0).type)):
            raise ValueError(f"raw values are of one column, a string or binary, and the stream has {schema.names}")

    def decode(self, values: Sequence[bytes], schema: pa.Schema) -> Decoded:
        read = partial(_raw, schema)
        return read_apart(values, read, read)

    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        return [each or b"" for each in rows.column(0).cast(pa.binary()).to_pylist()]

    def is_blank(self, line: bytes) -> bool:
        return False

    def lines(self, rows: pa.RecordBatch) -> bytes:
        values = self.encode(rows)
        lines = b"\n".join((*values, b""))
        if lines.count(b"\n") != len(values) or b"\r\n" in lines:
            wrong = next(each for each in values if b"\n" in each or each.endswith(b"\r"))
            raise ConnectorError(
                f"format raw: a value is a line here, and {wrong[:100]!r} has a line's end in it: take another format, such as json"
            )
        return lines


def _raw(schema: pa.Schema, values: Sequence[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(list(values), pa.binary()).cast(schema.field(0).type)], names=schema.names)
