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
        self.reader = pa.ipc.open_file(self.file, options=pa.ipc.IpcReadOptions(use_threads=False))
        self.readers = {tuple(range(len(self.schema.names))): self.reader}  # by the fields that they read; all: a part is read at once

    def rows(self) -> list[int]:
        """One column is read for it: the file's footer does not say."""
        reader = self._reader_of([0])
        return [reader.get_batch(part).num_rows for part in range(reader.num_record_batches)]

    @property
    def schema(self) -> pa.Schema:
        return self.reader.schema

    def batches(self, part: int, names: Sequence[str], rows_max: int) -> Iterator[pa.RecordBatch]:
        batch = self._reader_of([self.schema.get_field_index(name) for name in names]).get_batch(part).select(names)
        batch.validate(full=True)
        return (batch.slice(start, rows_max) for start in range(0, batch.num_rows, rows_max))

    def _reader_of(self, fields: Sequence[int]) -> pa.RecordBatchFileReader:
        """Reads the footer once, which is as long as the file has parts."""
        wanted = tuple(sorted(fields))
        if (reader := self.readers.get(wanted)) is None:
            options = pa.ipc.IpcReadOptions(included_fields=list(wanted), use_threads=False)
            reader = self.readers[wanted] = pa.ipc.open_file(self.file, options=options)
        return reader

    def close(self) -> None:
        self.file.close()


class ArrowFormat(RowFormat):
    parts = ArrowParts
