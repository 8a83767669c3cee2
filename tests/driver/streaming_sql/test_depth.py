"""What a text may cost to read: each part of it is read once, so that long ones take no longer than they are long.

Tests `expressions.py`, `building.py`.
"""

from __future__ import annotations

import pytest

from driver import sql, stream

BID = stream("bid", auction=int, price=int, at="timestamp[ms]", event_time="at", disorder="1s")
TERMS, INSIDE = 60, 25
DEEP = {
    "a sum": f"SELECT {' + '.join(['price'] * TERMS)} AS x FROM bid",
    "a sum of functions": f"SELECT {' + '.join(['sum(price)'] * TERMS)} AS x FROM bid GROUP BY auction EMIT AT END",
    "an instant": f"SELECT at{' + INTERVAL 1 SECOND' * TERMS} AS x FROM bid".replace(" 1 ", " '1' "),
    "conditions of instants": f"SELECT price FROM bid WHERE at {'> at OR at ' * TERMS} > at",
    "what is chosen": f"SELECT {'coalesce(NULL, ' * INSIDE}price{')' * INSIDE} AS x FROM bid",
    "cases": f"SELECT {'CASE WHEN price > 1 THEN NULL ELSE ' * INSIDE}price{' END' * INSIDE} AS x FROM bid",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", DEEP)
def test_no_part_is_read_twice(what: str) -> None:
    """Each level that read what is below twice would double the work: sixty of them would not end."""
    assert sql(DEEP[what], streams=[BID]).output("answers").build().outputs


@pytest.mark.timeout(60)
def test_a_query_of_with_that_is_read_twice_is_bound_once() -> None:
    links = ["w0 AS (SELECT price, at FROM bid)"]
    links += [f"w{i} AS (SELECT price, at FROM w{i - 1} UNION ALL SELECT price + 1, at FROM w{i - 1})" for i in range(1, 30)]
    made = sql(f"WITH {', '.join(links)} SELECT price FROM w29", streams=[BID]).output("answers").build()
    assert len(made.operators) < 4 * len(links)
