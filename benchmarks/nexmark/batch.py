"""DuckDB as a side of the benchmark, in batch: `python -m benchmarks.nexmark.batch EVENTS CORES --standing`, then names of queries."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pyarrow as pa

from benchmarks.metering import say
from benchmarks.nexmark.made import read
from benchmarks.nexmark.queries import chosen
from benchmarks.nexmark.witness import Witness

_STAMPED = "CREATE VIEW stamped AS SELECT bidder, dateTime AS event_time FROM bid"
"""Processing time of q12, which a batch has none of."""


def main() -> None:
    folder, cores = sys.argv[1:3]
    kinds = ("person", "auction", "bid")
    witness = Witness({name: pa.Table.from_batches(list(read(Path(folder), name))) for name in kinds})
    witness.connection.execute(f"SET threads = {int(cores)}")
    witness.connection.execute(_STAMPED)
    for line in sys.stdin:
        (query,) = chosen([line.split()[-1]])
        begun, used = time.perf_counter(), time.process_time()
        rows = witness.count(query.sql)
        say(seconds=time.perf_counter() - begun, answers=rows, cpu={"duckdb": time.process_time() - used})


if __name__ == "__main__":
    main()
