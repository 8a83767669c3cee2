"""Patterns on the real cluster: machine code in two processes, per key, while an instance and buckets move and rows flow."""

from __future__ import annotations

from collections import defaultdict

import pytest

from driver import LocalCluster, Query, col, event, row, stream
from tests.cluster.test_instances import Rows, another, place
from tests.cluster.test_moves import BUCKETS, Flow, key_of
from tests.support.waiting import until

#: µs, and so many numbers.
WITHIN = 1_000


def rising(name: str) -> Query:
    """From each fifth number on, of its key, the first third one that is more than ten greater, and then a seventh by what both are."""
    source = stream(f"{name}.in", {"k": "int64", "i": "int64", "ts": "timestamp[us]"}, event_time="ts", disorder="0s")
    first = event("first", col("i") % 5 == 1)
    second = event("second", (col("i") % 3 == 0) & (col("i") > row("first")["i"] + 10))
    third = event("third", (col("i") % 7 == 0) & ((col("i") + row("second").sum("i")) % 11 > 2))
    return (
        Query(name)
        .source(source)
        .pattern(
            "rising",
            first.then(second).then(third),
            by="k",
            within=f"{WITHIN}us",
            after="to_next",
            measures={"first": row("first")["i"], "second": row("second")["i"], "third": row("third")["i"]},
        )
        .output(f"{name}.out")
        .options(buckets=BUCKETS, parallelism=2, rebalance="off")
    )


def expected(sent: int) -> list[tuple[int, int, int, int]]:
    """Key and numbers of each match in the numbers before `sent`."""
    rows, found = defaultdict[int, list[int]](list), []
    for i in range(sent):
        rows[key_of(i)].append(i)
    for key, numbers in rows.items():
        for at, first in enumerate(numbers):
            if first % 5 == 1:
                behind = (numbers[k] for k in range(at, len(numbers)))
                second = next((i for i in behind if i % 3 == 0 and i > first + 10), sent)
                third = next((i for i in behind if i % 7 == 0 and (i + second) % 11 > 2), None)
                if third is not None and third <= first + WITHIN:
                    found.append((key, first, second, third))
    return sorted(found)


def _more(reading: Rows) -> None:
    goal = len(reading.rows) + 300
    until(lambda: len(reading.rows) >= goal)


@pytest.mark.long  # movement/ and the simulation move patterns, too
def test_matches_are_found_while_an_instance_and_buckets_move(cluster: LocalCluster) -> None:
    running = cluster.deploy(rising("rising"))
    reading, flow = Rows(running.subscribe("rising.out")), Flow(cluster.publisher("rising.in"), 50)
    for version in range(2):
        _more(reading)
        for instance in range(2):
            im = another(cluster, place(running, "SQ2", instance))
            running.move("SQ2", instance, im)
            assert place(running, "SQ2", instance) == im
        _more(reading)
        running.rebalance([(bucket + version) % 2 for bucket in range(BUCKETS)])
    assert list(running.pictures()) == ["rising"]
    sent = flow.end()
    found = sorted((each["k"], each["first"], each["second"], each["third"]) for each in reading.all())
    assert found == expected(sent) and len(found) > 1_000
    until(lambda: running.status()["state"] == "ended")
    operators = {each["name"]: each for each in running.status()["operators"]["SQ2"]}
    # What no variable may be is not sent.
    assert operators["rising.ways"]["rows_in"] == sum(i % 5 == 1 or i % 3 == 0 or i % 7 == 0 for i in range(sent))
