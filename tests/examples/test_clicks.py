"""Visits and how far they came, by the query and by cutting each visitor's clicks at half an hour of silence."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any

import pytest

from examples.clicks import made_up, query
from numa_cep import testing
from tests.support.jumbled import jumbled

Rows = list[dict[str, Any]]
START = datetime(2024, 5, 1, 9, tzinfo=UTC)
HALF_AN_HOUR = timedelta(minutes=30)
ACTIONS = {"s": "search", "v": "view", "c": "cart", "b": "buy"}


def click(minute: float, action: str, visitor: str = "ann", cents: int = 100) -> dict[str, Any]:
    return {"visitor": visitor, "action": ACTIONS[action], "cents": cents, "at": START + timedelta(minutes=minute)}


def visits_of(clicks: Rows) -> Iterator[Rows]:
    """Each visitor's clicks, cut where more than half an hour has none."""
    for visitor in {row["visitor"] for row in clicks}:
        own = sorted((row for row in clicks if row["visitor"] == visitor), key=lambda row: row["at"])
        cuts = [n for n in range(1, len(own)) if own[n]["at"] - own[n - 1]["at"] > HALF_AN_HOUR]
        yield from (own[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(own)], strict=True))


def step(actions: Sequence[str]) -> int:
    """`in` uses up the iterator as far as it finds the step, so the next one is looked for behind it."""
    left = iter(actions)
    return len(list(takewhile(lambda wanted: wanted in left, ("view", "cart", "buy"))))


def by_hand(clicks: Rows) -> dict[str, Rows]:
    visits, hours = [], {}
    for visit in visits_of(clicks):
        came = step([row["action"] for row in visit])
        in_cart = sum(row["cents"] for row in visit if row["action"] == "cart")
        visits.append({"visitor": visit[0]["visitor"], "start": visit[0]["at"], "clicks": len(visit), "step": came, "in_cart": in_cart})
        ended = (visit[-1]["at"] + HALF_AN_HOUR).replace(minute=0, second=0, microsecond=0)
        hours.setdefault(ended, Counter(visits=0, view=0, cart=0, buy=0)).update(["visits", *("view", "cart", "buy")[:came]])
    return {"visits": visits, "funnel": [{"hour": hour, **counts} for hour, counts in hours.items()]}


def in_order(answers: dict[str, Rows]) -> dict[str, Rows]:
    return {name: sorted(rows, key=lambda row: (row.get("hour") or row["start"], row.get("visitor"))) for name, rows in answers.items()}


@pytest.mark.parametrize(
    ("clicks", "steps"),
    [
        ([(0, "v"), (1, "c"), (2, "b")], [3]),
        ([(0, "s"), (1, "v"), (2, "v"), (3, "s")], [1]),
        ([(0, "c"), (1, "v"), (2, "b")], [1]),  # neither a cart before the view counts, nor a buy without a cart
        ([(0, "v"), (1, "b"), (2, "c"), (3, "v")], [2]),
        ([(0, "c"), (1, "v"), (2, "b"), (3, "c"), (4, "b")], [3]),
        ([(0, "v"), (1, "c"), (31, "b")], [3]),  # half an hour is not too long
        ([(0, "v"), (1, "c"), (31.001, "b")], [2, 0]),  # another visit, which begins anew
        ([(0, "b")], [0]),
    ],
)
def test_how_far_a_visit_comes(clicks: list[tuple[float, str]], steps: list[int]) -> None:
    visits = testing.answers(query(), {"clicks": [click(minute, action) for minute, action in clicks]})["visits"]
    assert [visit["step"] for visit in visits] == steps


@pytest.mark.parametrize("seed", range(3))
def test_random_clicks_in_any_order_on_any_number_of_instances(seed: int) -> None:
    draw = random.Random(seed)
    rows = [click(draw.randrange(600), draw.choice("svcb"), draw.choice("abcdefg"), draw.randrange(1000)) for _ in range(300)]
    rows = jumbled(rows, "at", timedelta(seconds=10), seed)
    expected = by_hand(rows)
    assert {visit["step"] for visit in expected["visits"]} == {0, 1, 2, 3}
    assert in_order(testing.answers(query(), {"clicks": rows}, instances=seed + 1)) == in_order(expected)


def test_the_hours_that_were_made_up() -> None:
    given = made_up()
    assert in_order(testing.answers(query(), given)) == in_order(by_hand(given["clicks"]))
