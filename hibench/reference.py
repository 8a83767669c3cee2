"""The expected answers, computed apart from both engines: Arrow's CSV reader and group-by straight over the files.

For every (address, window of `window_ms` aligned to the epoch): how many records, their first and last time. Files are
taken in order; a window is done when the greatest event time so far, less the disorder, has reached its end. So memory
holds one file and the open windows, whatever the size of the dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from hibench.answers import ANSWER, Answers, AnswerSum
from hibench.cache import disk_error
from hibench.dataset import FIELDS, Prepared

_GROUP = ["ip", "window"]
_PARTIAL = ["ip", "window", "first_ms", "last_ms", "visits"]


@dataclass(frozen=True)
class Reference:
    """The expected answers in brief, and the file that has their rows."""

    answers: Answers
    rows_file: Path

    def rows(self) -> pa.Table:
        return parquet.read_table(self.rows_file)


def reference(prepared: Prepared, window_ms: int, progress: Callable[[int], None] = lambda done: None) -> Reference:
    """The expected answers for windows of `window_ms`: kept beside the dataset, computed the first time.

    Call with the cache's lock held. `progress` is told how many records are done. Raises CacheError on a full disk.
    """
    rows_file = prepared.folder / f"answers-{window_ms}ms.parquet"
    if not rows_file.exists():
        _make(prepared, window_ms, rows_file, progress)
    total = AnswerSum()
    for batch in parquet.ParquetFile(rows_file).iter_batches():
        total.add(batch)
    progress(prepared.dataset.events)
    return Reference(total.result(), rows_file)


def _make(prepared: Prepared, window_ms: int, rows_file: Path, progress: Callable[[int], None]) -> None:
    """The rows appear under their name by one rename, when they are complete."""
    unfinished = rows_file.with_suffix(".making")
    try:
        with parquet.ParquetWriter(unfinished, ANSWER) as writer:
            for rows in window_answers(prepared, window_ms, progress):
                writer.write_table(rows)
        unfinished.rename(rows_file)
    except OSError as error:
        raise disk_error(prepared.folder.parent, error) from error
    finally:
        unfinished.unlink(missing_ok=True)


def window_answers(prepared: Prepared, window_ms: int, progress: Callable[[int], None] = lambda done: None) -> Iterator[pa.Table]:
    """Tables like ANSWER of windows that are done, every window exactly once."""
    pending, newest, done = None, 0, 0
    for path, file in zip(prepared.paths, prepared.files, strict=True):
        records = _records(path, prepared.dataset.record_bytes > 0)
        newest = max(newest, pc.max(records["creation_ms"]).as_py())
        counted = count_windows(records["source_ip"], records["creation_ms"], window_ms)
        pending = counted if pending is None else _merged([pending, counted])
        open_from = (newest - prepared.dataset.disorder_ms) // window_ms
        is_open = pc.greater_equal(pending["window"], open_from)
        yield pending.filter(pc.invert(is_open)).select(ANSWER.names)
        pending, done = pending.filter(is_open), done + file.events
        progress(done)
    yield pending.select(ANSWER.names)


def count_windows(ips: pa.ChunkedArray | pa.Array, times_ms: pa.ChunkedArray | pa.Array, window_ms: int) -> pa.Table:
    """One row per (ip, window number) of the records given: like ANSWER, and `window`."""
    window = pc.divide(times_ms, window_ms)
    table = pa.table({"ip": ips, "window": window, "first_ms": times_ms, "last_ms": times_ms, "visits": times_ms})
    return _grouped(table, "count")


def _merged(parts: list[pa.Table]) -> pa.Table:
    return _grouped(pa.concat_tables(parts), "sum")


def _grouped(table: pa.Table, visits: str) -> pa.Table:
    groups = table.group_by(_GROUP).aggregate([("first_ms", "min"), ("last_ms", "max"), ("visits", visits)])
    return groups.select([*_GROUP, "first_ms_min", "last_ms_max", f"visits_{visits}"]).rename_columns(_PARTIAL)


def _records(path: Path, padded: bool) -> pa.Table:
    """The two columns that the query needs, of one file."""
    first, second = FIELDS[:2]
    return csv.read_csv(
        path,
        read_options=csv.ReadOptions(column_names=[*FIELDS, *(["padding"] if padded else [])]),
        parse_options=csv.ParseOptions(quote_char=False),
        convert_options=csv.ConvertOptions(include_columns=[first, second], column_types={first: pa.int64(), second: pa.string()}),
    )
