"""Fixed window: first, last and count per address and 30 s, from a text file to answers written.

`python -m benchmarks.measured.window --csv FILE --records N --out FOLDER [--groups N] [--instances 1] [--pre-aggregation auto]
[--standing]`
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.metering import add_recovery, metered, recovering, say, turns
from cep.model.streams import Stream
from driver import TIME, LocalCluster, Query, col, count, files, first, last


def visits(csv: Path) -> Stream:
    """The fields up to the last one that a query reads."""
    return files("visits", {"ts": "timestamp[ms]", "ip": str}, paths=[str(csv)], event_time="ts", disorder="0s")


def query(source: Stream | str, folder: Path | None = None, **options: object) -> Query:
    """Answers are lines `address,first ms,last ms,count`, as the C program writes them."""
    return (
        Query("window")
        .source(source)
        .map("pick", ip=col("ip"), ts=col("ts"))
        .aggregate("per_ip", TIME("30s"), by="ip", start=first("ts"), end=last("ts"), visits=count())
        .output("answers", folder)
        .options(**options)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--groups", type=int, help="in a window at most: memory for each is stated")
    parser.add_argument("--instances", type=int, default=1)
    parser.add_argument("--pre-aggregation", default="auto")
    add_recovery(parser)
    parser.add_argument("--standing", action="store_true", help="run for every line that comes, not once")
    asked = parser.parse_args()
    made = query(visits(asked.csv), asked.out, pre_aggregation=asked.pre_aggregation, **recovering(asked))
    with LocalCluster(instances=asked.instances, data=[asked.csv.parent, asked.out]) as cluster:
        for _ in turns(asked.standing):
            running = cluster.deploy(made, start=False)
            with metered(cluster) as used:
                running.start().wait()
            rows = running.status()["rows"]["answers"]
            running.delete()
            per_group = {} if asked.groups is None else {"bytes_per_group": round(used.grown_bytes() / asked.groups, 1)}
            say(answers=rows, **per_group, **used.rates(asked.records))


if __name__ == "__main__":
    main()
