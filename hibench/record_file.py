"""One file of records, written by a Spark worker: this module imports no more than that needs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO

from hibench.dataset import Dataset, FileFacts
from hibench.records import lines


def write_record_file(dataset: Dataset, folder: Path, index: int) -> FileFacts | OSError:
    """Writes file `index` of the dataset. An OSError is returned, not raised: Spark would bury a full disk in words."""
    path, digest, size = folder / dataset.file_name(index), hashlib.sha256(), 0
    numbers = dataset.file_range(index)
    try:
        with open(path, "wb", buffering=0) as file:
            for piece in lines(dataset, numbers):
                _write_all(file, piece)
                digest.update(piece)
                size += len(piece)
    except OSError as error:
        return error
    return FileFacts(path.name, len(numbers), size, digest.hexdigest())


def _write_all(file: BinaryIO, piece: memoryview) -> None:
    """An unbuffered write may take a part only, and says ENOSPC at the next."""
    while piece:
        piece = piece[file.write(piece) :]
