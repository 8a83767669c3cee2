"""Running count per address: an answer for each tuple, delivered to a subscriber that adds them up.

`python -m benchmarks.measured.running_count --csv FILE --records N --out FOLDER`
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.measured.window import visits
from benchmarks.metering import drained, metered, say
from driver import UNBOUNDED, LocalCluster, Query, col, count


def query(csv: Path) -> Query:
    """Only the counts go to the subscriber, as from the C program."""
    counted = Query("running-count").source(visits(csv)).aggregate("per_ip", UNBOUNDED(ttl=None), by="ip", n=count())
    return counted.map("counts", n=col("n")).output("answers")


class Total:
    """The sum of all counts."""

    def __init__(self) -> None:
        self.sum = 0

    def __call__(self, batch: pa.RecordBatch) -> None:
        self.sum += pc.sum(batch["n"]).as_py()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with LocalCluster(instances=1, data=[asked.csv.parent]) as cluster:
        running = cluster.deploy(query(asked.csv), start=False)
        answers, total = running.subscribe("answers"), Total()
        with metered(cluster) as used:
            running.start()
            rows = drained(answers, total)
    say(answers=rows, sum=total.sum, **used.rates(asked.records))


if __name__ == "__main__":
    main()
