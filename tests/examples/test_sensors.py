"""Three sigma off the ten minutes before, by the query and by `statistics` over each sensor's readings."""

from __future__ import annotations

import math
import random
import statistics
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from examples.sensors import query
from numa_cep import testing
from tests.support.jumbled import jumbled

Rows = list[dict[str, Any]]
START = datetime(2024, 5, 1, tzinfo=UTC)


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def reading(second: float, value: float, sensor: str = "s") -> dict[str, Any]:
    return {"sensor": sensor, "value": value, "at": at(second)}


def described(second: float, place: str, in_service: bool = True, sensor: str = "s") -> dict[str, Any]:
    return {"sensor": sensor, "place": place, "in_service": in_service, "since": at(second)}


def quiet(count: int) -> Rows:
    """A reading every ten seconds, 20.0 and 21.0 in turn."""
    return [reading(10 * number, 20.0 + number % 2) for number in range(count)]


def by_hand(sensors: Rows, readings: Rows) -> Rows:
    """The figures are those that the exact mean and variance round to, so they are equal to the bit."""
    found = []
    for name in {row["sensor"] for row in readings}:
        own = sorted((row for row in readings if row["sensor"] == name), key=lambda row: row["at"])
        for before, now in pairwise(own):
            values = [r["value"] for r in own if before["at"] - timedelta(minutes=10) <= r["at"] <= before["at"]]
            if len(values) < 30 or now["at"] - before["at"] > timedelta(minutes=10):
                continue
            usual, spread = math.fsum(values) / len(values), math.sqrt(statistics.variance(values))
            last = max((s for s in sensors if s["sensor"] == name and s["since"] <= now["at"]), key=lambda s: s["since"], default=None)
            if abs(now["value"] - usual) > 3 * spread and (last is None or last["in_service"]):
                found.append(now | {"place": last and last["place"], "usual": usual, "spread": spread})
    return found


def in_order(alarms: Rows) -> list[tuple[Any, ...]]:
    rows = [tuple(each[name] for name in ("sensor", "place", "at", "value", "usual", "spread")) for each in alarms]
    return sorted(rows, key=lambda row: (row[0], row[2]))


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([*quiet(30), reading(300, 23.0)], [300]),
        ([*quiet(29), reading(290, 23.0)], []),  # nothing is known of it yet
        ([*quiet(30), reading(300, 22.0)], []),  # three sigma above 20.5 are 22.03
        ([*quiet(30), reading(890, 23.0)], [890]),  # ten minutes after its last reading
        ([*quiet(30), reading(890.001, 23.0)], []),  # longer: what was usual then is not asked any more
        ([*quiet(30), *(reading(300 + 10 * n, 23.0) for n in range(10))], [300, 310]),  # it becomes usual
    ],
)
def test_what_is_an_alarm(readings: Rows, expected: list[float]) -> None:
    found = testing.answers(query(), {"sensors": [described(0, "hall")], "readings": readings})["alarms"]
    assert [(each["at"], each["place"]) for each in found] == [(at(second), "hall") for second in expected]
    assert in_order(found) == in_order(by_hand([described(0, "hall")], readings))


@pytest.mark.parametrize(
    ("sensors", "places"),
    [
        ([], [None]),  # taken as being in service
        ([described(301, "hall")], [None]),
        ([described(0, "hall", sensor="another")], [None]),
        ([described(0, "hall"), described(300, "yard")], ["yard"]),
        ([described(0, "hall"), described(300, "yard", in_service=False)], []),
        ([described(0, "hall", in_service=False), described(300, "yard")], ["yard"]),
    ],
)
def test_the_description_that_holds(sensors: Rows, places: list[str | None]) -> None:
    found = testing.answers(query(), {"sensors": sensors, "readings": [*quiet(30), reading(300, 23.0)]})["alarms"]
    assert [each["place"] for each in found] == places


def test_descriptions_are_not_waited_for_while_they_are_silent() -> None:
    with testing.run(query()) as run:
        run.send("sensors", described(0, "hall"))
        run.send("readings", [*quiet(30), reading(300, 23.0), reading(310, 20.0)])
        assert run.answers("alarms") == []  # a description of that time may still come

        run.pass_time("1s")
        assert [each["place"] for each in run.answers("alarms")] == ["hall"]

        run.send("sensors", described(320, "workshop", in_service=False))
        run.send("readings", [reading(315, 30.0), reading(325, 40.0), reading(335, 20.0)])
        run.pass_time("1s")
        assert [(each["at"], each["place"]) for each in run.answers("alarms")] == [(at(315), "hall")]
        assert run.late_rows == 0


@pytest.mark.parametrize("seed", range(3))
def test_random_readings_in_any_order_on_any_number_of_instances(seed: int) -> None:
    draw = random.Random(seed)
    names = ["a", "b", "c"]
    readings = [
        reading(20 * n + draw.randrange(20), draw.gauss(20, 1) * draw.choice([1] * 20 + [2]), name) for name in names for n in range(150)
    ]
    sensors = [described(draw.randrange(3000), f"p{n}", draw.random() < 0.7, draw.choice(names)) for n in range(12)]
    given = {"sensors": sorted(sensors, key=lambda row: row["since"]), "readings": jumbled(readings, "at", timedelta(seconds=2), seed)}
    expected = in_order(by_hand(**given))
    assert len(expected) > 5
    assert in_order(testing.answers(query(), given, instances=seed + 1)["alarms"]) == expected
