"""Make a dataset with PySpark, once; afterwards the cache has it."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from hibench.cache import disk_error, making
from hibench.dataset import Dataset, FileFacts, Prepared
from hibench.records import lines
from hibench.spark import local_spark

Progress = Callable[[int], None]
"""Told how many records are done by now."""

_POLL_SECONDS = 0.2


def find(cache: Path, dataset: Dataset) -> Prepared | None:
    """The dataset if the cache has it. Raises CacheError if it is damaged."""
    folder = cache / dataset.name
    return Prepared.read(folder) if folder.exists() else None


def prepare(
    cache: Path, dataset: Dataset, cores: int, partitions: int | None = None, progress: Progress = lambda done: None
) -> Prepared:
    """The dataset from the cache, or made now by Spark on `cores` cores. Call with the cache's lock held.

    One Spark task makes whole files; `partitions` (tasks; one per file unless given) decides who makes a file, never
    what is in it. Raises CacheError (no room, not writable) or EngineError (Spark failed); either way nothing is left.
    """
    found = find(cache, dataset)
    if found is None:
        with making(cache, dataset) as folder, local_spark(cores) as spark, _watched(folder, dataset, progress):
            numbers = spark.session.sparkContext.parallelize(range(dataset.files), partitions or dataset.files)
            outcomes = numbers.map(partial(_make_file, dataset, folder)).collect()
            Prepared(dataset, folder, tuple(_facts(folder, outcome) for outcome in outcomes)).write_manifest()
        found = Prepared.read(cache / dataset.name)
    progress(dataset.events)
    return found


def _make_file(dataset: Dataset, folder: Path, index: int) -> FileFacts | OSError:
    """Runs in a Spark worker. An OSError is returned, not raised: Spark would bury a full disk under its own words."""
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


def _write_all(file, piece: memoryview) -> None:
    """An unbuffered write may take a part only, and says ENOSPC at the next."""
    while piece:
        piece = piece[file.write(piece) :]


def _facts(folder: Path, outcome: FileFacts | OSError) -> FileFacts:
    if isinstance(outcome, OSError):
        raise disk_error(folder, outcome) from outcome
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
