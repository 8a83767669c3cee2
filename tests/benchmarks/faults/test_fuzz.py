"""Broken messages at the doors of a real cluster: the query beside them answers exactly, and what is aimed at is there."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.faults.fuzz import FuzzedQuery, Good, _window, doors, processes, requests, throw
from benchmarks.faults.messages import messages
from driver import LocalCluster


def test_what_is_expected_of_a_window() -> None:
    """Rows 10 to 19 are of the keys 1, 2, 0, 1, 2, 0, 1, 2, 0, 1."""
    assert [_window(20, key) for key in range(3)] == [
        (19, "k0", 3, 12 + 15 + 18),
        (19, "k1", 4, 10 + 13 + 16 + 19),
        (19, "k2", 3, 11 + 14 + 17),
    ]


@pytest.mark.long  # `tests/instance_manager/test_broken_messages.py` has the same for an instance manager
def test_the_good_query_is_right_while_others_are_thrown_at(cluster: LocalCluster) -> None:
    before = processes()
    good, victim = Good(cluster), FuzzedQuery(cluster)
    good.step(30)
    endpoint = cluster.rest.get("/instance-managers")[0]["endpoint"].removeprefix("ipc://")
    folder = Path(endpoint).parent
    paths = doors(cluster, folder)
    assert endpoint in paths and len(paths) >= 3  # two instance managers, and the metric server
    aims = victim.aims(f"ipc://{folder}/nobody")
    assert {id_ for id_, _ in aims.channels}.isdisjoint(aims.names) and len(aims.entries) == 2
    next_message = messages(aims, 3)
    for path in paths:
        for _ in range(5):
            throw(path, next_message())
    good.step(37)
    victim.look()
    assert (good.sent, good.windows) == (67, 6)
    good.publisher.close()
    assert processes() == before


def test_requests_are_malformed_in_many_ways() -> None:
    found = list(islice(requests(random.Random(1)), 60))
    assert all(each.partition(b"\r\n\r\n")[0][-1:].isdigit() for each in found)  # lengths, right ones and others
    heads = {each.split(b" ", 1)[0] for each in found}
    assert {b"GET", b"POST"} < heads and len(set(found)) > 30
