"""Answers put aside while a run lasts, to be looked at after it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from hibench.runs.answers import RowsAgain, Shape


class Kept:
    """The answers of a run: in memory, or in a file of `folder` where they are many."""

    def __init__(self, folder: Path | None) -> None:
        self._file = None if folder is None else folder / "answers.arrows"
        self._batches: list[pa.RecordBatch] = []
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def add(self, batch: pa.RecordBatch) -> None:
        if self._file is None:
            self._batches.append(batch)
            return
        self._writer = self._writer or pa.ipc.new_stream(str(self._file), batch.schema)
        self._writer.write_batch(batch)

    def rows(self, shape: Shape) -> RowsAgain:
        if self._writer is None:
            return lambda: map(shape.of, self._batches)
        return lambda: map(shape.of, pa.ipc.open_stream(pa.memory_map(str(self._file))))
