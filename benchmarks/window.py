"""Fixed window: first, last and count per address and 30 s, from a text file to answers written.

`python -m benchmarks.window --csv FILE --records N --out FOLDER [--instances 1] [--pre-aggregation auto]`
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from benchmarks.metering import cluster_on, drained, metered, say
from driver import TIME, Query, col, count, files, first, last

_PLAIN = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")


def visits(csv: Path) -> object:
    """The fields up to the last one that a query reads."""
    return files("visits", {"ts": "timestamp[ms]", "ip": str}, paths=[str(csv)], event_time="ts", disorder="0s")


def query(source: object, **options: object) -> Query:
    return (
        Query("window")
        .source(source)
        .map("pick", ip=col("ip"), ts=col("ts"))
        .aggregate("per_ip", TIME("30s"), by="ip", start=first("ts"), end=last("ts"), visits=count())
        .output("answers")
        .options(**options)
    )


class Written:
    """Answers as lines `address,first ms,last ms,count`, as the C program writes them."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("wb")

    def __call__(self, batch: pa.RecordBatch) -> None:
        milliseconds = [pc.divide(batch[name].cast(pa.int64()), 1000) for name in ("start", "end")]
        lines = pa.record_batch([batch["ip"], *milliseconds, batch["visits"]], names=["ip", "start", "end", "visits"])
        pyarrow.csv.write_csv(lines, self.file, _PLAIN)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--instances", type=int, default=1)
    parser.add_argument("--pre-aggregation", default="auto")
    asked = parser.parse_args()
    with cluster_on(asked.instances, asked.csv) as cluster:
        running = cluster.deploy(query(visits(asked.csv), pre_aggregation=asked.pre_aggregation), start=False)
        answers = running.subscribe("answers")
        written = Written(asked.out / "answers.csv")
        with metered(cluster) as used:
            running.start()
            rows = drained(answers, written)
            written.file.close()
    say(answers=rows, **used.rates(asked.records))


if __name__ == "__main__":
    main()
