"""The engine that a query is deployed on by name. Spark's is loaded when it is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cep.errors import QueryError

if TYPE_CHECKING:
    from driver.spark.running import SparkRunning as SparkRunning
else:
    SparkRunning = Any  # is loaded with Spark

ENGINES = ("cep", "spark")


def deploy(query: Any, engine: str = "spark", *, master: str = "local[*]", start: bool = True) -> SparkRunning:
    """Runs a query (builder, value or document) without a cluster of ours: on Spark, in a JVM of its own or on the cluster at `master`.

    Returns a `driver.spark.running.SparkRunning`, which has the methods of one that runs on a cluster; use it as a context manager.

    Raises:
        QueryError: it is no query, or Spark cannot run it (docs/spark.md): names operator and reason.
        ClusterError: Spark cannot be started.
    """
    if engine == "cep":
        raise QueryError("engine 'cep' needs a cluster: with LocalCluster() as cluster: cluster.deploy(query)")
    check_engine(engine)
    running: SparkRunning = import_module("driver.spark.running").deploy(query, master, start)
    return running


def check_engine(engine: str) -> None:
    """Raises QueryError: there is none of that name."""
    if engine not in ENGINES:
        raise QueryError(f"engine: expected one of {', '.join(ENGINES)}, got {engine!r}")
