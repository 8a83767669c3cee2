"""Make a dataset with PySpark, once; afterwards the cache has it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from hibench.engines.spark import LocalSpark, local_spark
from hibench.numa.node_local import Homes
from hibench.records.cache import disk_error, new_folder
from hibench.records.dataset import Dataset, FileFacts, Prepared
from hibench.records.file import write_record_file

Progress = Callable[[int], None]
"""Told how many records are done by now."""

_POLL_SECONDS = 0.2


def find(cache: Path, dataset: Dataset) -> Prepared | None:
    """The dataset if the cache has it. Raises CacheError if it is damaged."""
    folder = cache / dataset.name
    return Prepared.read(folder) if folder.exists() else None


def prepare_dataset(
    cache: Path,
    dataset: Dataset,
    cores: int,
    progress: Progress = lambda done: None,
    partitions: int | None = None,
    homes: Homes | None = None,
) -> Prepared:
    """The dataset from the cache, or made now by Spark on `cores` cores. Call with the cache's lock held.

    Raises CacheError (no room, not writable) or EngineError (Spark failed); either way nothing half made is left.
    """
    found = find(cache, dataset)
    if found is None:
        with new_folder(cache, dataset) as folder, local_spark(cores) as spark, _watched(folder, dataset, progress):
            make(spark, dataset, folder, partitions, homes)
        found = Prepared.read(cache / dataset.name)
    progress(dataset.events)
    return found


def make(spark: LocalSpark, dataset: Dataset, folder: Path, partitions: int | None = None, homes: Homes | None = None) -> Prepared:
    """Makes the files of `dataset` in the empty `folder`, the manifest last.

    A Spark task makes whole files, a chunk of records at a time; `partitions` (one per file unless given) decides which task makes
    a file and `homes` where its pages are in memory, neither its bytes.
    """
    numbers = spark.session.sparkContext.parallelize(range(dataset.files), partitions or dataset.files)
    outcomes = numbers.map(partial(write_record_file, dataset, folder, homes)).collect()
    made = Prepared(dataset, folder, tuple(_facts(folder, outcome) for outcome in outcomes))
    made.write_manifest()
    return made


def _facts(folder: Path, outcome: FileFacts | OSError) -> FileFacts:
    if isinstance(outcome, OSError):
        raise disk_error(folder.parent, outcome) from outcome
    return outcome


@contextlib.contextmanager
def _watched(folder: Path, dataset: Dataset, progress: Progress) -> Iterator[None]:
    """Reports the records done, judged by the bytes written, while the block runs."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_POLL_SECONDS):
            written = sum(path.stat().st_size for path in folder.iterdir())
            progress(min(dataset.events, dataset.events * written // dataset.bytes_expected))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
