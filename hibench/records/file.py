"""One file of records, written by a Spark worker: this module imports no more than that needs."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as parquet

from hibench.numa.node_local import Homes
from hibench.records.dataset import Dataset, FileFacts
from hibench.records.records import RECORD, lines, rows

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer  # which only type checkers have


def write_record_file(dataset: Dataset, folder: Path, homes: Homes | None, index: int) -> FileFacts | OSError:
    """Writes file `index` of the dataset, each of its blocks at home in one of `homes` if they are given.

    An OSError is returned, not raised: Spark would bury a full disk in words.
    """
    path, numbers = folder / dataset.file_name(index), dataset.file_range(index)
    try:
        with open(path, "wb", buffering=0) as raw, RecordFile(raw, homes, index) as file:
            _WRITERS[dataset.format](dataset, numbers, file)
    except OSError as error:
        return error
    return FileFacts(path.name, len(numbers), file.tell(), file.sha256)


class RecordFile(io.RawIOBase):
    """Bytes on their way to a file: all are written, counted and digested; before a block begins this thread moves to its home."""

    def __init__(self, raw: io.RawIOBase, homes: Homes | None, index: int) -> None:
        self._raw, self._homes, self._index = raw, homes, index
        self._digest, self._written = hashlib.sha256(), 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: ReadableBuffer) -> int:
        """Raises OSError: what an unbuffered write says, which may take a part only and tell of a full disk at the next."""
        piece = memoryview(data).cast("B")
        self._digest.update(piece)
        size = len(piece)
        while piece:
            taken = self._raw.write(piece[: self._until_next_block(len(piece))]) or 0
            self._written += taken
            piece = piece[taken:]
        return size

    def _until_next_block(self, size: int) -> int:
        if self._homes is None:
            return size
        block, offset = divmod(self._written, self._homes.block_bytes)
        if not offset:
            self._homes.move_to(self._homes.nodes[self._index][block])
        return min(size, self._homes.block_bytes - offset)


def _write_text(dataset: Dataset, numbers: range, file: RecordFile) -> None:
    for piece in lines(dataset, numbers):
        file.write(piece)


def _write_parquet(dataset: Dataset, numbers: range, file: RecordFile) -> None:
    with parquet.ParquetWriter(file, RECORD) as writer:
        for batch in rows(dataset, numbers):
            writer.write_batch(batch)


def _write_arrow(dataset: Dataset, numbers: range, file: RecordFile) -> None:
    with pa.ipc.new_file(file, RECORD) as writer:
        for batch in rows(dataset, numbers):
            writer.write_batch(batch)


_WRITERS: dict[str, Callable[[Dataset, range, RecordFile], None]] = {
    "text": _write_text,
    "parquet": _write_parquet,
    "arrow": _write_arrow,
}
