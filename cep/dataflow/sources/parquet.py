"""Parquet files as a source: a block is a row group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from cep.dataflow.sources.rows import Parts, RowFormat
from cep.world.store import ReadableFile


class ParquetParts(Parts):
    def __init__(self, readable: ReadableFile) -> None:
        super().__init__(readable)
        self.file = pq.ParquetFile(readable, memory_map=False, pre_buffer=False, buffer_size=1 << 20)

    def rows(self) -> list[int]:
        metadata = self.file.metadata
        return [metadata.row_group(part).num_rows for part in range(metadata.num_row_groups)]

    @property
    def schema(self) -> pa.Schema:
        return self.file.schema_arrow

    def batches(self, part: int, names: Sequence[str], rows_max: int) -> Iterator[pa.RecordBatch]:
        found: Iterator[pa.RecordBatch] = self.file.iter_batches(rows_max, row_groups=[part], columns=list(names), use_threads=False)
        return found

    def close(self) -> None:
        self.file.close(force=True)


class ParquetFormat(RowFormat):
    parts = ParquetParts
