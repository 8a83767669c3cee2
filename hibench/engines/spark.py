"""Spark on this machine, as the benchmark uses it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from cep.errors import ClusterError
from driver.spark.session import Spark, private_spark
from hibench.errors import EngineError

LocalSpark = Spark


@contextlib.contextmanager
def local_spark(cores: int, settings: dict[str, str] | None = None) -> Iterator[LocalSpark]:
    """Spark in one JVM with `cores` task slots (`driver.spark.session.private_spark`). Raises EngineError if it cannot start or fails."""
    try:
        with private_spark(f"local[{cores}]", cores, settings, "hibench") as spark:
            yield spark
    except ClusterError as error:
        raise EngineError(str(error)) from error
