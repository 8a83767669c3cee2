"""Parquet files of an output. Rows wait until they make a row group."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from cep.dataflow.outputs.staged import Appending
from cep.elements import Batch
from cep.kernels.columns import columns_to_arrow
from cep.model.schema import Schema
from cep.model.sinks import ParquetSink

GROUP_ROWS, GROUP_BYTES = 1 << 17, 16 << 20


class ParquetWriter:
    def __init__(self, files: ParquetSink, schema: Schema, file: Appending, refuse: Callable[[int, str], None]) -> None:
        self.schema, self.waiting = schema, list[pa.RecordBatch]()
        self.rows = self.bytes = 0
        self.writer = pq.ParquetWriter(file, schema.arrow, compression="zstd")

    def write(self, batch: Batch) -> None:
        rows = columns_to_arrow(batch.columns, self.schema)
        self.waiting.append(rows)
        self.rows, self.bytes = self.rows + rows.num_rows, self.bytes + rows.nbytes
        if self.rows >= GROUP_ROWS or self.bytes >= GROUP_BYTES:
            self._write_group()

    def end(self) -> None:
        if self.rows:
            self._write_group()
        self.writer.close()

    def _write_group(self) -> None:
        self.writer.write_table(pa.Table.from_batches(self.waiting, self.schema.arrow), row_group_size=max(1, self.rows))
        self.waiting, self.rows, self.bytes = [], 0, 0
