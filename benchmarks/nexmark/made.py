"""The files of one set of events: made once, read by publishers and by the witness.

<folder>/<person, auction, bid>.arrow   an Arrow file with a record batch for every 20,000 events of all kinds, and the column `n`
<folder>/<person, auction, bid>.tsv     the same as text without a header: columns apart by tabs, times as ms; made where it is asked for
<folder>/side_input.csv                 `key,value`, of q13
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.nexmark.asked import SIDE_ROWS, Given
from benchmarks.nexmark.generator import NUMBER, DrawnEvents

BATCH_EVENTS = 20_000


def event_files(events: DrawnEvents, work: Path) -> Path:
    """The folder with the files of `events`, below `work`."""
    folder = work / f"nexmark-{events.count}-{events.rate:g}-{events.seed}-{events.first}"
    if not folder.exists():
        staged = folder.with_suffix(".staged")
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(parents=True)
        for name, table in events.tables().items():
            _write(staged / f"{name}.arrow", table, events)
        write_side_input(Given(staged, 0).side_input)
        staged.rename(folder)
    return folder


def write_side_input(path: Path) -> None:
    path.write_text("key,value\n" + "".join(f"{i},{i}\n" for i in range(SIDE_ROWS)))


def read(folder: Path, name: str) -> Iterator[pa.RecordBatch]:
    """The batches of a kind of events, in memory."""
    with pa.ipc.open_file(folder / f"{name}.arrow") as file:
        for i in range(file.num_record_batches):
            yield file.get_batch(i)


def text_file(folder: Path, name: str) -> Path:
    """The events of a kind as text, without their numbers."""
    path = folder / f"{name}.tsv"
    if not path.exists():
        table = pa.Table.from_batches(list(read(folder, name))).drop_columns([NUMBER])
        columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in table.columns]
        options = pyarrow.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
        staged = path.with_suffix(".staged")
        pyarrow.csv.write_csv(pa.table(columns, names=table.schema.names), staged, options)
        staged.rename(path)
    return path


def _write(path: Path, table: pa.Table, events: DrawnEvents) -> None:
    numbers = table[NUMBER].to_numpy()
    cuts = np.searchsorted(numbers, np.arange(events.first, events.first + events.count + BATCH_EVENTS, BATCH_EVENTS))
    with pa.ipc.new_file(path, table.schema) as out:
        for start, end in pairwise(cuts):
            out.write_batch(table.slice(start, end - start).combine_chunks().to_batches()[0])
