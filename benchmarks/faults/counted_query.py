"""The query of `python -m benchmarks faults`, the files that it reads, and what it is to answer, counted apart with numpy.

SQ1 reads and SQ3 puts out, so both keep their number of instances; SQ2 counts between them, and may be scaled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.faults.programs import GROUPS, NONSENSE, WINDOW_MS, is_bad, is_late, records_of
from driver import TIME, Query, col, count, files, sum_, window_start

FILES, HALF = 6, 500  # values are below two of these

#: Rows as (window, key, n, total), packed: sorted, so that two of them compare.
Rows = np.ndarray


def write_files(folder: Path, rows: int) -> str:
    """`t,key,value` lines, dealt to several files; what matches them."""
    i = np.arange(rows, dtype=np.int64)
    for part in range(FILES):
        table = records_of(i[part::FILES])
        table = table.set_column(0, "t", table["t"].fill_null(NONSENSE))
        pa.csv.write_csv(table, folder / f"records-{part}.txt", pa.csv.WriteOptions(include_header=False))
    return str(folder / "records-*.txt")


def expected(rows: int) -> Rows:
    i = np.arange(rows, dtype=np.int64)
    i = i[~(is_late(i) | is_bad(i))]
    slot = i // WINDOW_MS * GROUPS + i * 7919 % GROUPS
    n, total = np.bincount(slot), np.bincount(slot, weights=(i % 1000).astype(np.float64)).astype(np.int64)
    there = np.flatnonzero(n)
    return _sorted(there % GROUPS, n[there], total[there], there // GROUPS)


def _sorted(key: np.ndarray, n: np.ndarray, total: np.ndarray, window: np.ndarray) -> Rows:
    columns = {"window": window, "key": key, "n": n, "total": total}
    found = np.empty(len(key), [(name, np.int64) for name in columns])
    for name, column in columns.items():
        found[name] = column
    return np.sort(found, order=list(columns))


def rows_of(table: pa.Table) -> Rows:
    start, key, n, total = (np.asarray(table[name].cast(pa.int64()).to_numpy(), np.int64) for name in ("start", "key", "n", "total"))
    unit = {"s": 1, "ms": 1, "us": 1000, "ns": 1_000_000}[table.schema.field("start").type.unit]
    return _sorted(key, n, total, start // unit // WINDOW_MS)


def query(name: str, read: Any, folder: Path, checkpoint: str, recover: str) -> Query:
    window = TIME(f"{WINDOW_MS // 1000}s")
    made = Query(name).source(read).map("halves", key=col("key"), half=col("value") // HALF, value=col("value"))
    made = made.aggregate("half", window, by=["key", "half"], n=count(), total=sum_("value"))
    made = made.aggregate("whole", window, by="key", start=window_start(), n=sum_("n"), total=sum_("total"))
    made = made.output(f"{name}.out", folder=str(folder), format="parquet")
    return made.options(parallelism=3, recover=recover, checkpoint=checkpoint)


def read_files(name: str, paths: str) -> Any:
    return files(f"{name}.in", t="timestamp[ms]", key=int, value=int, paths=paths, event_time="t", disorder="1s", block_bytes=1 << 20)
