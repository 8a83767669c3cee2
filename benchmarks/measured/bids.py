"""Queries over bids, from text files to answers written, one for each kind of operator.

`python -m benchmarks.measured.bids QUESTION --bids FILE --updates FILE --records N --out FOLDER [--standing]`
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from benchmarks.bids import CHANNEL_ID, FOLDER
from benchmarks.metering import add_recovery, metered, recovering, say, turns
from cep.model.streams import Stream
from driver import SIZE, TIME, LocalCluster, Query, col, count, count_distinct, files, max_

_BID = {"ms": "timestamp[ms]", "auction": int, "bidder": str, "price": int, "channel": str, "url": str}
_UPDATE = {"ms": "timestamp[ms]", "auction": int, "reserve": int}


def _bids(path: Path, last: str) -> Stream:
    """The fields up to the last one that a query reads."""
    names = list(_BID)[: list(_BID).index(last) + 1]
    return files("bids", {name: _BID[name] for name in names}, paths=[str(path)], event_time="ms", disorder="0s")


def interval_join(bids: Path, updates: Path) -> Query:
    changed = files("updates", _UPDATE, paths=[str(updates)], event_time="ms", disorder="0s")
    near = Query("interval-join").source(_bids(bids, "price")).interval_join("near", changed, "-10s", "10s", on="auction", prefix="u_")
    fields = {name: col(name) for name in ("ms", "auction", "bidder", "price")}
    return near.map("pick", {**fields, "reserve": col("u_reserve")})


def top_n(bids: Path, updates: Path) -> Query:
    return Query("top-n").source(_bids(bids, "price")).top("ten", 10, TIME("1m"), by="auction", order="-price")


def keep_last(bids: Path, updates: Path) -> Query:
    return Query("keep-last").source(_bids(bids, "price")).deduplicate("latest", by="bidder", keep="last", window=TIME("1m"))


def distinct(bids: Path, updates: Path) -> Query:
    functions = {"bids": count(), "bidders": count_distinct("bidder"), "auctions": count_distinct("auction")}
    return Query("distinct").source(_bids(bids, "channel")).aggregate("channels", TIME("1m"), functions, by="channel")


def regex(bids: Path, updates: Path) -> Query:
    short = Query("regex").source(_bids(bids, "url")).filter("short", col("url").matches(FOLDER))
    ids = short.map("ids", auction=col("auction"), price=col("price"), id=col("url").extract(CHANNEL_ID, 2))
    return ids.filter("known", col("id").is_not_null())


def sequential(bids: Path, updates: Path) -> Query:
    functions = {"bids": count(), "highest": max_("price")}
    return Query("sequential").source(_bids(bids, "price")).aggregate("hundreds", SIZE(100), functions, by="auction")


QUESTIONS: dict[str, Callable[[Path, Path], Query]] = {
    "interval-join": interval_join,
    "top-n": top_n,
    "keep-last": keep_last,
    "distinct": distinct,
    "regex": regex,
    "sequential": sequential,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", choices=QUESTIONS)
    for name in ("--bids", "--updates", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--records", type=int, required=True, help="lines of all files that are read")
    add_recovery(parser)
    parser.add_argument("--standing", action="store_true", help="run for every line that comes, not once")
    asked = parser.parse_args()
    query = QUESTIONS[asked.question](asked.bids, asked.updates).output("answers", asked.out).options(**recovering(asked))
    with LocalCluster(instances=1, data=[asked.bids.parent, asked.out]) as cluster:
        for _ in turns(asked.standing):
            running = cluster.deploy(query, start=False)
            with metered(cluster) as used:
                running.start().wait()
            status = running.status()
            running.delete()
            say(answers=status["rows"]["answers"], **used.rates(asked.records))


if __name__ == "__main__":
    main()
