"""Arrow and Parquet: a value, or a file, has any number of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.contract.formats import Decoded, FileFormat, RowsFile
from connectors.formats.reading_apart import WRONG

ROWS_MAX, GATHERED_BYTES = 65_536, 4 << 20
_FILE_MAGIC = b"ARROW1"


class _Tables(FileFormat):
    many: ClassVar[bool] = True

    def decode(self, values: Sequence[bytes], schema: pa.Schema) -> Decoded:
        found = Decoded()
        for at, value in enumerate(values):
            try:
                found.runs.append((at, _one(list(self.batches(BytesIO(value))), schema)))
            except (*WRONG, OSError) as error:
                found.bad.append((at, str(error)[:500]))
        return found

    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        return [self.file_of(rows)]


def _one(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """All of them as one."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches, batches[0].schema if batches else schema).combine_chunks()
    return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], table.schema)


class ArrowTables(_Tables):
    """Arrow's IPC format: a message is a stream of it, a file has a footer; either is read as either."""

    suffix: ClassVar[str] = ".arrow"
    media: ClassVar[str] = "application/vnd.apache.arrow.stream"

    def batches(self, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        is_file = file.read(len(_FILE_MAGIC)) == _FILE_MAGIC
        file.seek(0)
        if is_file:
            reader = pa.ipc.open_file(file)
            batches = map(reader.get_batch, range(reader.num_record_batches))
        else:
            batches = iter(pa.ipc.open_stream(file))
        for batch in batches:
            batch.validate(full=True)  # whoever wrote it may have been wrong, and what reads it does not look again
            yield batch

    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        stream = BytesIO()
        with pa.ipc.new_stream(stream, rows.schema) as writer:
            writer.write_batch(rows)
        return [stream.getvalue()]

    def rows_file(self, file: BinaryIO, schema: pa.Schema) -> RowsFile:
        return _Gathered(pa.ipc.new_file(file, schema), schema)


class ParquetTables(_Tables):
    """Parquet."""

    suffix: ClassVar[str] = ".parquet"
    media: ClassVar[str] = "application/vnd.apache.parquet"

    def batches(self, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        for batch in pq.ParquetFile(file).iter_batches(ROWS_MAX, use_threads=False):
            batch.validate(full=True)
            yield batch

    def rows_file(self, file: BinaryIO, schema: pa.Schema) -> RowsFile:
        return _Gathered(pq.ParquetWriter(file, schema), schema)


class _Gathered(RowsFile):
    """Few rows at a time would be read, and kept, badly: they are written together."""

    def __init__(self, writer: Any, schema: pa.Schema) -> None:
        self.writer, self.schema = writer, schema
        self.waiting: list[pa.RecordBatch] = []
        self.bytes = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self.waiting.append(rows)
        self.bytes += rows.nbytes
        if self.bytes >= GATHERED_BYTES:
            self._flush()

    def finish(self) -> None:
        self._flush()
        self.writer.close()

    def _flush(self) -> None:
        if self.waiting:
            self.writer.write_table(pa.Table.from_batches(self.waiting, self.schema).combine_chunks())
            self.waiting, self.bytes = [], 0
