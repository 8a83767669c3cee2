"""Files in the IPC file format of Arrow as a source: a block is a record batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from cep.dataflow.sources.rows import Parts, RowFormat
from cep.world.store import ReadableFile


class ArrowParts(Parts):
    def __init__(self, readable: ReadableFile) -> None:
        super().__init__(readable)
        self.file = pa.PythonFile(readable, "r")
        self.reader = pa.ipc.open_file(self.file)

    def rows(self) -> list[int]:
        """One column is read for it: the file's footer does not say."""
        options = pa.ipc.IpcReadOptions(included_fields=[0], use_threads=False)
        reader = pa.ipc.open_file(self.file, options=options)
        return [reader.get_batch(part).num_rows for part in range(reader.num_record_batches)]

    @property
    def schema(self) -> pa.Schema:
        return self.reader.schema

    def batches(self, part: int, names: Sequence[str], rows_max: int) -> Iterator[pa.RecordBatch]:
        fields = [self.schema.get_field_index(name) for name in names]
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        batch = pa.ipc.open_file(self.file, options=options).get_batch(part)
        batch.validate(full=True)
        return (batch.slice(start, rows_max) for start in range(0, batch.num_rows, rows_max))

    def close(self) -> None:
        self.file.close()


class ArrowFormat(RowFormat):
    parts = ArrowParts
