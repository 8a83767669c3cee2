"""The files that rows of the table read, by name, made once and kept: bids (`benchmarks.bids`), and uservisits records of
`hibench.records.records`, in one file.

<folder>/<dataset>/records.csv      creation_ms,source_ip,… , about 133 bytes a record, event times in order
<folder>/<dataset>/times.i64        the first field of every record, int64
<folder>/<dataset>/addresses.u32    the second, uint32
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.bids import Bids
from hibench.records.dataset import AddressKeys, Dataset
from hibench.records.records import CHUNK_EVENTS, addresses, event_times_ms, lines

WINDOW_S = 30
RECORDS = 10_000_000
SEED = 7


@dataclass(frozen=True)
class Data:
    """Records of one distribution. Equal values, equal bytes.

    Args:
        keys: how addresses are drawn, `zipf:N` (s = 1.0 over N of them) or `uniform` (nearly unique).
        windows: how many windows of 30 s they fill.
    """

    keys: str
    windows: int
    records: int = RECORDS
    seed: int = SEED

    @property
    def dataset(self) -> Dataset:
        rate = -(-self.records // (self.windows * WINDOW_S))
        return Dataset(self.records, self.seed, AddressKeys.parse(self.keys), record_bytes=0, event_rate=rate, file_events=self.records)

    @property
    def groups_max(self) -> int:
        """No window has more groups than this."""
        per_window = self.dataset.event_rate * WINDOW_S
        return min(self.records, per_window, self.dataset.keys.addresses or per_window)

    @property
    def folder(self) -> str:
        return f"{self.dataset.name}-{self.windows}w"

    def smaller(self, records: int) -> Data:
        """Of the same density."""
        return replace(self, records=records, windows=max(1, self.windows * records // self.records))

    def write(self, folder: Path) -> None:
        everything = range(self.records)
        with (folder / "records.csv").open("wb") as file:
            for piece in lines(self.dataset, everything):
                file.write(piece)
        _write_column(folder / "times.i64", everything, lambda numbers: event_times_ms(self.dataset, numbers))
        _write_column(folder / "addresses.u32", everything, lambda numbers: as_numbers(addresses(self.dataset, numbers)))

    def names(self, folder: Path) -> dict[str, Any]:
        """What stands in commands."""
        files = {"csv": folder / "records.csv", "times": folder / "times.i64", "addresses": folder / "addresses.u32"}
        return {**files, "records": self.records, "groups": self.groups_max}

    def describe(self, folder: Path) -> str:
        """One line for the report: records, bytes per record, distribution, seed."""
        size = (folder / "records.csv").stat().st_size
        keys = f"zipf s = 1.0 over {self.dataset.keys.addresses:,} keys" if self.dataset.keys.addresses else "nearly unique keys"
        per_window = min(self.records, self.dataset.event_rate * WINDOW_S)
        return f"{self.records:,} records of {size / self.records:.1f} B, {keys}, {per_window:,} a window, seed {self.seed}"


#: Name -> what it is.
NAMED: dict[str, Data | Bids] = {
    "zipf": Data("zipf:100000", windows=20),
    "unique-1m": Data("uniform", windows=10),
    "unique-10m": Data("uniform", windows=1),
    "bids": Bids(),
    "zipf-long": Data("zipf:100000", windows=80, records=4 * RECORDS),
    "bids-long": Bids(8 * Bids.records),
    "bids-longer": Bids(16 * Bids.records),
}


@dataclass(frozen=True)
class DataOnDisk:
    """`data` on disk."""

    data: Data | Bids
    folder: Path

    def names(self) -> dict[str, Any]:
        """What stands in commands."""
        return self.data.names(self.folder)

    def describe(self) -> str:
        """One line for the report."""
        return self.data.describe(self.folder)


def dataset(name: str, cache: Path, records: int | None = None) -> DataOnDisk:
    """The dataset of that name from `cache`, made now if it is not there; `records`: a smaller one of the same density.

    Raises KeyError for a name that is not in NAMED, OSError where the disk refuses.
    """
    data = NAMED[name]
    if records is not None and records < data.records:
        data = data.smaller(records)
    folder = cache / data.folder
    if not folder.is_dir():
        making = folder.with_name(f".making-{folder.name}")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        data.write(making)
        making.rename(folder)
    return DataOnDisk(data, folder)


def _write_column(path: Path, numbers: range, column: Callable[[range], np.ndarray]) -> None:
    with path.open("wb") as file:
        for first in range(numbers.start, numbers.stop, CHUNK_EVENTS):
            column(range(first, min(first + CHUNK_EVENTS, numbers.stop))).tofile(file)


def as_numbers(texts: pa.Array) -> np.ndarray:
    """uint32 of addresses written a.b.c.d."""
    parts = pc.split_pattern(texts, ".").flatten().cast(pa.uint32()).to_numpy().reshape(-1, 4)
    numbers: np.ndarray = (parts << np.array([24, 16, 8, 0], np.uint32)).sum(axis=1, dtype=np.uint32)
    return numbers


def as_texts(numbers: np.ndarray) -> pa.Array:
    """The inverse of `as_numbers`."""
    parts = [pc.cast(pa.array(numbers >> np.uint32(shift) & np.uint32(255)), pa.string()) for shift in (24, 16, 8, 0)]
    return pc.binary_join_element_wise(*parts, ".")
