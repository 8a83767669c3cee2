"""Three failures and a success within five minutes, found by the query and by a regular expression over each user's logins."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from examples.fraud import made_up, query
from numa_cep import testing
from tests.support.jumbled import jumbled

START = datetime(2024, 5, 1, tzinfo=UTC)


def login(second: float, ok: bool, user: str = "ann") -> dict[str, Any]:
    return {"user": user, "address": "10.0.0.1", "ok": ok, "at": START + timedelta(seconds=second)}


def alarms(rows: list[dict[str, Any]], instances: int = 1) -> set[tuple[str, datetime, datetime]]:
    found = testing.answers(query(), {"logins": rows}, instances=instances)["alarms"]
    assert len({tuple(each.values()) for each in found}) == len(found)
    return {(each["user"], each["since"], each["at"]) for each in found}


def by_hand(rows: list[dict[str, Any]]) -> set[tuple[str, datetime, datetime]]:
    """Sorting is stable, so logins of one instant stay in the order in which they were sent."""
    found = set()
    for user in {row["user"] for row in rows}:
        own = sorted((row for row in rows if row["user"] == user), key=lambda row: row["at"])
        outcomes = "".join("+" if row["ok"] else "-" for row in own)
        for match in re.finditer(r"---\+", outcomes):
            since, at = own[match.start()]["at"], own[match.end() - 1]["at"]
            if at - since <= timedelta(minutes=5):
                found.add((user, since, at))
    return found


@pytest.mark.parametrize(
    ("logins", "expected"),
    [
        # seconds of the logins, failures and then successes             (since, at) of the alarms
        ({"-": [0, 60, 120], "+": [300]}, [(0, 300)]),
        ({"-": [0, 60, 120], "+": [300.001]}, []),  # a millisecond more than five minutes
        ({"-": [0, 60], "+": [120]}, []),  # two failures are two typing errors
        ({"-": [0, 60, 120], "+": [130, 140]}, [(0, 130)]),  # the second success is one after a success
        ({"-": [0, 20, 30], "+": [10, 40]}, []),  # a success between
        ({"-": [0, 60, 120, 180], "+": [200]}, [(60, 200)]),  # the last three failures count
        ({"-": [0, 60, 120, 500, 510, 520], "+": [530]}, [(500, 530)]),
        ({"-": [0, 60, 120], "+": []}, []),
    ],
)
def test_what_is_an_alarm(logins: dict[str, list[float]], expected: list[tuple[float, float]]) -> None:
    rows = sorted((login(second, kind == "+") for kind, seconds in logins.items() for second in seconds), key=lambda row: row["at"])
    assert alarms(rows) == {("ann", login(since, True)["at"], login(at, True)["at"]) for since, at in expected}


def test_failures_of_others_do_not_count() -> None:
    assert alarms([login(0, False), login(1, False), login(2, False, "bob"), login(3, True)]) == set()


@pytest.mark.parametrize("seed", range(3))
def test_random_logins_in_any_order_on_any_number_of_instances(seed: int) -> None:
    draw = random.Random(seed)
    rows = [login(draw.randrange(6000), draw.random() < 0.3, draw.choice(["ann", "bob", "cy", "dee"])) for _ in range(400)]
    rows = jumbled(rows, "at", timedelta(seconds=5), seed)
    expected = by_hand(rows)
    assert len(expected) > 3
    assert alarms(rows, instances=seed + 1) == expected


def test_the_guessers_that_were_made_up() -> None:
    rows = made_up()["logins"]
    found = testing.answers(query(), {"logins": rows})["alarms"]
    assert {each["address"] for each in found} == {"203.0.113.9"}
    assert {(each["user"], each["since"], each["at"]) for each in found} == by_hand(rows)
