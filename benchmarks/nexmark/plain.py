"""Queries of maps and filters: rows as they come, each by itself."""

from __future__ import annotations

from benchmarks.nexmark.asked import ANSWERS, BID, SIDE_ROWS, Given, Nexmark
from numa_cep import Query, col, format_time, when

_BIDS = {name: col(name) for name in ("auction", "bidder", "price", "dateTime", "extra")}
_EUROS = col("price") * 0.908


def _q0(given: Given) -> Query:
    return Query("q0").source(BID).map("pass", _BIDS).output(ANSWERS)


def _q1(given: Given) -> Query:
    return Query("q1").source(BID).map("euros", {**_BIDS, "price": _EUROS}).output(ANSWERS)


def _q2(given: Given) -> Query:
    chosen = Query("q2").source(BID).filter("chosen", col("auction") % 123 == 0)
    return chosen.map("pick", auction=col("auction"), price=col("price")).output(ANSWERS)


def _q10(given: Given) -> Query:
    """The day and the minute of a bid's partition are columns of its line: each instance writes one file."""
    at = col("dateTime")
    partition = {"day": format_time(at, "%Y-%m-%d"), "minute": format_time(at, "%H:%M")}
    return Query("q10").source(BID).map("partition", {**_BIDS, **partition}).output(ANSWERS, given.files, overwrite=True)


def _q13(given: Given) -> Query:
    side = (str(given.side_input), {"key": int, "value": str})
    bids = Query("q13").source(BID).map("keyed", {**_BIDS, "key": col("auction") % SIDE_ROWS})
    joined = bids.lookup("side", side, on="key")
    return joined.map("pick", {**_BIDS, "value": col("value")}).output(ANSWERS)


def _q14(given: Given) -> Query:
    hour, extra = col("dateTime").hour(), col("extra")
    kind = when(hour.between(8, 18), "dayTime").when((hour <= 6) | (hour >= 20), "nightTime").otherwise("otherTime")
    count = extra.byte_length() - extra.replace("c", "").byte_length()
    between = Query("q14").source(BID).filter("between", (_EUROS > 1_000_000) & (_EUROS < 50_000_000))
    return between.map("counted", {**_BIDS, "price": _EUROS, "bidTimeType": kind, "c_counts": count}).output(ANSWERS)


def _q21(given: Given) -> Query:
    channel = col("channel").lower()
    known = when(channel == "apple", "0").when(channel == "google", "1").when(channel == "facebook", "2").when(channel == "baidu", "3")
    found = known.otherwise(col("url").extract("(&|^)channel_id=([^&]*)", 2))
    fields = {name: col(name) for name in ("auction", "bidder", "price", "channel")}
    named = Query("q21").source(BID).map("named", {**fields, "channel_id": found})
    return named.filter("known", col("channel_id").is_not_null()).output(ANSWERS)


def _q22(given: Given) -> Query:
    parts = col("url").split("/")
    fields = {name: col(name) for name in ("auction", "bidder", "price", "channel")}
    folders = {f"dir{i}": parts.element(i + 2) for i in (1, 2, 3)}
    return Query("q22").source(BID).map("folders", {**fields, **folders}).output(ANSWERS)


PLAIN = (
    Nexmark("q0", "bids as they are", ("bid",), _q0, "SELECT auction, bidder, price, dateTime, extra FROM bid"),
    Nexmark("q1", "bids in euros", ("bid",), _q1, "SELECT auction, bidder, price * 0.908::DOUBLE, dateTime, extra FROM bid"),
    Nexmark("q2", "bids of some auctions", ("bid",), _q2, "SELECT auction, price FROM bid WHERE auction % 123 = 0"),
    Nexmark(
        "q10",
        "bids to CSV files, with their day and minute",
        ("bid",),
        _q10,
        "SELECT auction, bidder, price, dateTime, extra, strftime(dateTime, '%Y-%m-%d'), strftime(dateTime, '%H:%M') FROM bid",
        files=True,
    ),
    Nexmark(
        "q13",
        "bids with a value of a side input",
        ("bid",),
        _q13,
        "SELECT auction, bidder, price, dateTime, extra, value FROM bid JOIN side_input ON auction % 10000 = key",
    ),
    Nexmark(
        "q14",
        "bids between two prices, time of day, letters c in a text",
        ("bid",),
        _q14,
        """
        SELECT auction, bidder, price * 0.908::DOUBLE AS euros, dateTime, extra,
            CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime' WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime'
                ELSE 'otherTime' END,
            length(extra) - length(replace(extra, 'c', ''))
        FROM bid WHERE euros > 1000000 AND euros < 50000000
        """,
    ),
    Nexmark(
        "q21",
        "the number of a bid's channel, by name or out of its url",
        ("bid",),
        _q21,
        """
        SELECT auction, bidder, price, channel,
            CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
                ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
        FROM bid WHERE lower(channel) IN ('apple', 'google', 'facebook', 'baidu') OR regexp_matches(url, '(&|^)channel_id=')
        """,
    ),
    Nexmark(
        "q22",
        "three folders of a bid's url",
        ("bid",),
        _q22,
        """
        SELECT auction, bidder, price, channel, split_part(url, '/', 4), split_part(url, '/', 5), split_part(url, '/', 6) FROM bid
        """,
    ),
)
