"""The expected answers, computed apart from both engines: Arrow's CSV reader and Arrow's group-by straight over the files.

What a workload expects stands with the workload; here are the records that it is computed from, a file at a time, and the
sums of it, which are kept beside the dataset. The rows themselves are computed again when they are to be shown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv

from hibench.records.cache import disk_error
from hibench.records.dataset import FIELDS, Prepared
from hibench.runs.answers import AnswerSums, Expected, RowsAgain, Shape, folded, summed
from hibench.workloads.workload import CREATION, RunTerms, Workload

Progress = Callable[[int], None]
"""Told how many records are done."""

_TYPES: dict[object, pa.DataType] = {str: pa.string(), float: pa.float64(), int: pa.int64()}


def expected_of(workload: Workload, terms: RunTerms, tables: RowsAgain, last_only: bool = False) -> Expected:
    """What `workload` has to answer to the records `tables`."""
    shape, rows = _rows(workload, terms, tables, last_only)
    total = summed(shape, rows(), terms.window_ms)
    return Expected(shape, total.result(), total.windows, rows)


def reference_answers(
    workload: Workload, prepared: Prepared, terms: RunTerms, last_only: bool = False, progress: Progress = lambda done: None
) -> Expected:
    """The expected answers to a dataset; their sums are kept beside it, computed the first time.

    Call with the cache's lock held. Raises CacheError on a full disk.
    """
    kept = prepared.folder / f"expected-{_name(workload, terms, last_only)}.json"
    if kept.exists():
        found = _read(kept, workload, prepared, terms, last_only)
    else:
        found = expected_of(workload, terms, lambda: prepared_records(prepared, workload.columns, progress), last_only)
        _write(kept, found)
    progress(prepared.dataset.events)
    return found


def prepared_records(prepared: Prepared, columns: Mapping[str, object], progress: Progress = lambda done: None) -> Iterator[pa.Table]:
    """The records with these columns, a file at a time and in order; the creation in ms."""
    done = 0
    for path, file in zip(prepared.paths, prepared.files, strict=True):
        yield parsed(path, columns, prepared.dataset.record_bytes > 0)
        done += file.events
        progress(done)


def parsed(text: Path | pa.Buffer, columns: Mapping[str, object], padded: bool) -> pa.Table:
    """The records of a text file, or of text in memory."""
    types = {name: pa.int64() if name == CREATION else _TYPES[type_] for name, type_ in columns.items()}
    return csv.read_csv(
        text if isinstance(text, Path) else pa.BufferReader(text),
        read_options=csv.ReadOptions(column_names=[*FIELDS, *(["padding"] if padded else [])]),
        parse_options=csv.ParseOptions(quote_char=False),
        convert_options=csv.ConvertOptions(include_columns=list(types), column_types=types, strings_can_be_null=False),
    )


def _rows(workload: Workload, terms: RunTerms, tables: RowsAgain, last_only: bool) -> tuple[Shape, RowsAgain]:
    shape = workload.shape(terms)

    def every() -> Iterable[pa.Table]:
        return workload.expected(tables(), terms)

    return (shape.last_only(), lambda: [folded(shape, every())]) if last_only else (shape, every)


def _name(workload: Workload, terms: RunTerms, last_only: bool) -> str:
    """A name for what decides the answers of a workload to a dataset."""
    numbers = f"{terms.window_ms}ms-{terms.slide_ms}ms{'-last' if last_only else ''}"
    made = hashlib.sha256(repr(workload.shape(terms).schema).encode()).hexdigest()[:8]
    return f"{workload.name}-{numbers}-{made}"


def _write(kept: Path, found: Expected) -> None:
    """It appears under its name by one rename, when it is complete."""
    unfinished = kept.with_suffix(".making")
    try:
        unfinished.write_text(json.dumps({"answers": asdict(found.answers), "windows": list(found.windows.items())}) + "\n")
        unfinished.rename(kept)
    except OSError as error:
        raise disk_error(kept.parent.parent, error) from error
    finally:
        unfinished.unlink(missing_ok=True)


def _read(kept: Path, workload: Workload, prepared: Prepared, terms: RunTerms, last_only: bool) -> Expected:
    document = json.loads(kept.read_text())
    shape, rows = _rows(workload, terms, lambda: prepared_records(prepared, workload.columns), last_only)
    windows = {start: (events, count) for start, (events, count) in document["windows"]}
    return Expected(shape, AnswerSums(**document["answers"]), windows, rows)
