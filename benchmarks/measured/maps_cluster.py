"""Fifty maps x * 0.5 + 1.0 through a cluster of one instance manager: published, mapped, delivered.

`python -m benchmarks.measured.maps_cluster --split stateful|per-operator [--records N]`
"""

from __future__ import annotations

import argparse
import threading

import numpy as np
import pyarrow as pa

from benchmarks.measured.maps import MAPS
from benchmarks.metering import drained, metered, say
from driver import LocalCluster, Query, col, stream

BATCH_ROWS = 1 << 16


def query(split: str) -> Query:
    built = Query("maps").source(stream("numbers", x=float))
    for i in range(MAPS):
        built = built.map(f"m{i}", x=col("x") * 0.5 + 1.0)
    return built.output("answers").options(split=split, parallelism=1)


def _publish(cluster: LocalCluster, batches: list[pa.RecordBatch]) -> None:
    with cluster.publisher("numbers") as out:
        for batch in batches:
            out.send(batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", choices=("stateful", "per-operator"), required=True)
    parser.add_argument("--records", type=int, default=1_000_000)
    asked = parser.parse_args()
    values = np.arange(asked.records, dtype=np.float64)
    batches = [pa.record_batch({"x": values[at : at + BATCH_ROWS]}) for at in range(0, asked.records, BATCH_ROWS)]
    with LocalCluster(instances=1) as cluster:
        answers = cluster.deploy(query(asked.split)).subscribe("answers")
        publisher = threading.Thread(target=_publish, args=(cluster, batches))
        with metered(cluster) as used:
            publisher.start()
            rows = drained(answers, lambda batch: None)
        publisher.join()
    say(answers=rows, **used.rates(asked.records))


if __name__ == "__main__":
    main()
