"""Other engines as sides of the benchmark: Flink SQL, from rows in memory to nowhere, and DuckDB, in batch, from tables in memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from benchmarks.java import JavaProgram
from benchmarks.nexmark.flink.texts import flink_text
from benchmarks.nexmark.generator import NUMBER
from benchmarks.nexmark.made import read
from benchmarks.nexmark.measuring import CHECK
from benchmarks.nexmark.page import DUCKDB, FLINK
from benchmarks.nexmark.queries import chosen
from benchmarks.sides import STANDING, ComparedSide, side

FLINK_VERSION = "2.3.0"
_JARS = ("flink-table-planner_2.12", "flink-table-api-java-bridge", "flink-table-runtime", "flink-clients")
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
        _write_text(folder, name)
    words = _PROGRAM.words(built, *_OPTIONS, f"-XX:ActiveProcessorCount={cores}")
    with side([*words, str(folder), str(cores), STANDING], os.environ) as run:
        yield lambda line="": run(told(line))


def told(line: str) -> str:
    """What the program is told of a line that is a query's name, with `check` before it or not."""
    *how, name = line.split()
    return " ".join([*(word for word in how if word == CHECK), ",".join(chosen([name])[0].reads), flink_text(name)])


def _write_text(folder: Path, name: str) -> None:
    """The events of a kind for a program that reads no Arrow: columns apart by tabs, times as ms."""
    if (path := folder / f"{name}.tsv").exists():
        return
    table = pa.Table.from_batches(list(read(folder, name))).drop_columns([NUMBER])
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in table.columns]
    options = pyarrow.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    pyarrow.csv.write_csv(pa.table(columns, names=table.schema.names), path, options)


@contextmanager
def duckdb(folder: Path, cores: int, work: Path) -> Iterator[ComparedSide]:
    words = [sys.executable, "-m", "benchmarks.nexmark.batch", str(folder), str(cores), STANDING]
    with side(words, os.environ) as run:
        yield run


PEERS = {FLINK: flink, DUCKDB: duckdb}
SHOWN = {FLINK: f"Flink SQL {FLINK_VERSION}", DUCKDB: "DuckDB in batch"}
