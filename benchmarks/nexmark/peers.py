"""Other engines as sides of the benchmark: Flink SQL, from rows in memory to nowhere, and DuckDB, in batch, from tables in memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.java import JavaProgram
from benchmarks.nexmark.flink.texts import flink_text
from benchmarks.nexmark.made import text_file
from benchmarks.nexmark.measuring import CHECK, FROM_FILES
from benchmarks.nexmark.page import DUCKDB, FLINK
from benchmarks.nexmark.queries import chosen
from benchmarks.sides import STANDING, ComparedSide, side

FLINK_VERSION = "2.3.0"
_JARS = (
    "flink-table-planner_2.12",
    "flink-table-api-java-bridge",
    "flink-table-runtime",
    "flink-clients",
    "flink-connector-files",
    "flink-csv",
)
_PROGRAM = JavaProgram(
    Path(__file__).parent / "flink" / "FlinkNexmark.java", tuple(f"org.apache.flink:{name}:{FLINK_VERSION}" for name in _JARS)
)
_OPTIONS = ("-Xms4g", "-Xmx4g", "-XX:+UseParallelGC", "-XX:-UseDynamicNumberOfCompilerThreads")


@contextmanager
def flink(folder: Path, cores: int, work: Path) -> Iterator[ComparedSide]:
    """Built below `work`, once. Raises RuntimeError: there is no Java or Maven, or they say no."""
    built = work / f"flink-{FLINK_VERSION}"
    built.mkdir(exist_ok=True)
    try:
        _PROGRAM.build(built)
    except FileNotFoundError as missing:
        raise RuntimeError(f"Flink needs a JDK and Maven: {missing}") from missing
    for name in ("person", "auction", "bid"):
        text_file(folder, name)
    words = _PROGRAM.words(built, *_OPTIONS, f"-XX:ActiveProcessorCount={cores}")
    with side([*words, str(folder), str(cores), STANDING], os.environ) as run:
        yield lambda line="": run(told(line))


def told(line: str) -> str:
    """What the program is told of a line that is a query's name, with `check` or `file` before it or not."""
    *how, name = line.split()
    return " ".join([*(word for word in (CHECK, FROM_FILES) if word in how), ",".join(chosen([name])[0].reads), flink_text(name)])


@contextmanager
def duckdb(folder: Path, cores: int, work: Path) -> Iterator[ComparedSide]:
    words = [sys.executable, "-m", "benchmarks.nexmark.batch", str(folder), str(cores), STANDING]
    with side(words, os.environ) as run:
        yield lambda line="": run(line.replace(f"{FROM_FILES} ", ""))


PEERS = {FLINK: flink, DUCKDB: duckdb}
SHOWN = {FLINK: f"Flink SQL {FLINK_VERSION}", DUCKDB: "DuckDB in batch"}
