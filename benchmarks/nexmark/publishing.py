"""The publishing process: one thread that sends the events of the streams that a query reads, in batches of 20,000 events of all kinds.

`python -m benchmarks.nexmark.publishing URL FOLDER`. It has all batches in memory, and reads two lines for each run: names of streams,
upon which it opens a publisher of each and says `ready`; then anything, upon which it sends, closes, and says how long each took, in s.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from benchmarks.nexmark.asked import ROWS_OF, STREAMS
from benchmarks.nexmark.generator import NUMBER
from benchmarks.nexmark.made import read
from numa_cep import Cluster

Batches = dict[str, list[pa.RecordBatch]]


def loaded(folder: Path) -> Batches:
    """All batches of every stream, as it declares them."""
    kinds = {name: list(read(folder, name)) for name in {ROWS_OF.get(name, name) for name in STREAMS}}
    return {name: [_declared(name, batch) for batch in kinds[ROWS_OF.get(name, name)]] for name in STREAMS}


def _declared(name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.drop_columns([NUMBER]).cast(STREAMS[name].schema.arrow)


def _run(cluster: Cluster, batches: Batches, names: Sequence[str]) -> tuple[float, float]:
    publishers = cluster.open_publishers([STREAMS[name] for name in names])
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.perf_counter()
    for together in zip(*(batches[name] for name in names), strict=True):
        for publisher, batch in zip(publishers, together, strict=True):
            publisher.send(batch)
    sent = time.perf_counter()
    cluster.close_publishers(publishers)
    return sent - begun, time.perf_counter() - sent


def main() -> None:
    url, folder = sys.argv[1:]
    batches = loaded(Path(folder))
    with Cluster(url) as cluster:
        for line in sys.stdin:
            print(*_run(cluster, batches, line.split()), flush=True)


if __name__ == "__main__":
    main()
