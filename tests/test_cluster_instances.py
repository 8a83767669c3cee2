"""Whole instances that move on the real cluster, while tuples flow: told to, of themselves, and where they cannot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from test_cluster_moves import check, started

from driver import LocalCluster, Running


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(instances=3, session_timeout_s=3.0) as begun:
        yield begun


def place(running: Running, subquery: str, instance: int = 0) -> str:
    found = running.status()["placed"]
    return next(str(each["im"]) for each in found if (each["subquery"], each["instance"]) == (subquery, instance))


def test_told_to_move_again_and_again(cluster: LocalCluster) -> None:
    running, reading, flow = started(cluster, "told", parallelism=2, rebalance="off")
    for im in ("im-0", "im-1", "im-2", "im-1", "im-0"):
        reading.more(2_000)
        for instance in (0, 1):
            if place(running, "SQ2", instance) != im:
                running.move("SQ2", instance, im)
                assert place(running, "SQ2", instance) == im
    check(reading, flow)
