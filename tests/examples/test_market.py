"""Bars with the quotes of their ends, by the query and by plain Python."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from examples.market import made_up, query
from numa_cep import testing
from tests.support.jumbled import jumbled

Rows = list[dict[str, Any]]
START = datetime(2024, 5, 1, 9, 30, tzinfo=UTC)
END = timedelta(minutes=1) - timedelta(microseconds=1)  # the last instant of a minute


def trade(second: float, price: float, size: int = 100, symbol: str = "A") -> dict[str, Any]:
    return {"symbol": symbol, "price": price, "size": size, "at": START + timedelta(seconds=second)}


def quote(second: float, bid: float, ask: float, symbol: str = "A") -> dict[str, Any]:
    return {"symbol": symbol, "bid": bid, "ask": ask, "at": START + timedelta(seconds=second)}


def bars(trades: Rows, quotes: Rows, instances: int = 1) -> Rows:
    found = testing.answers(query(), {"trades": trades, "quotes": quotes}, instances=instances)["bars"]
    return sorted(found, key=lambda bar: (bar["symbol"], bar["minute"]))


def by_hand(trades: Rows, quotes: Rows) -> Rows:
    """Sorting is stable, so rows of one instant stay in the order in which they were sent."""
    minutes, quoted = defaultdict(list), sorted(quotes, key=lambda row: row["at"])
    for row in sorted(trades, key=lambda row: row["at"]):
        minutes[row["symbol"], row["at"].replace(second=0, microsecond=0)].append(row)
    found = []
    for (symbol, minute), rows in sorted(minutes.items()):
        prices, volume = [row["price"] for row in rows], sum(row["size"] for row in rows)
        own = [row for row in quoted if row["symbol"] == symbol]
        stood = bisect_right(own, minute + END, key=lambda row: row["at"]) - 1
        fresh = stood >= 0 and own[stood]["at"] >= minute + END - timedelta(seconds=10)
        found.append(
            {
                "symbol": symbol,
                "minute": minute,
                "open": prices[0],
                "high": max(prices),
                "low": min(prices),
                "close": prices[-1],
                "volume": volume,
                "average": math.fsum(row["price"] * row["size"] for row in rows) / volume,
                "bid": own[stood]["bid"] if fresh else None,
                "ask": own[stood]["ask"] if fresh else None,
            }
        )
    return found


def test_a_bar() -> None:
    trades = [trade(1, 10.0), trade(20, 12.0, 300), trade(40, 9.0), trade(59.999, 11.0, 500), trade(60, 99.0)]
    first, second = bars(trades, [quote(58, 10.5, 11.5), quote(60, 98.0, 99.0)])
    assert first == {
        "symbol": "A",
        "minute": START,
        **{"open": 10.0, "high": 12.0, "low": 9.0, "close": 11.0, "volume": 1000, "average": 11.0},
        **{"bid": 10.5, "ask": 11.5},
    }
    assert (second["open"], second["close"], second["bid"], second["ask"]) == (99.0, 99.0, None, None)  # the quote is a minute old


def test_trades_of_one_instant_are_in_the_order_in_which_they_were_sent() -> None:
    (found,) = bars([trade(5, price) for price in (3.0, 1.0, 4.0, 2.0)], [quote(55, 1.0, 2.0)])
    assert (found["open"], found["close"]) == (3.0, 2.0)


def test_a_minute_is_answered_when_both_streams_have_come_to_its_end() -> None:
    with testing.run(query()) as run:
        run.send("trades", [trade(10, 7.0), trade(61, 8.0)])  # less the disorder, that is the end of the first minute
        assert run.answers("bars") == []

        run.send("quotes", [quote(59, 6.5, 7.5), quote(61, 9.0, 9.5)])
        assert [(bar["close"], bar["bid"]) for bar in run.answers("bars")] == [(7.0, 6.5)]


@pytest.mark.parametrize("seed", range(3))
def test_random_trades_in_any_order_on_any_number_of_instances(seed: int) -> None:
    draw = random.Random(seed)
    moments = [draw.randrange(6000) / 10 for _ in range(400)]  # several of one instant
    trades = [trade(moment, draw.randrange(1, 200) / 7, draw.randrange(1, 50), draw.choice("ABC")) for moment in moments]
    quotes = [quote(draw.randrange(600), draw.random(), 1 + draw.random(), draw.choice("ABC")) for _ in range(90)]
    trades, quotes = (jumbled(rows, "at", timedelta(seconds=1), seed) for rows in (trades, quotes))
    expected = by_hand(trades, quotes)
    assert {bar["bid"] is None for bar in expected} == {True, False}
    assert bars(trades, quotes, instances=seed + 1) == expected


def test_the_minutes_that_were_made_up() -> None:
    given = made_up()
    assert bars(**given) == by_hand(**given)
