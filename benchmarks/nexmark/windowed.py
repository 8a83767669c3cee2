"""Queries that count, aggregate and rank bids, in windows or over all that there are."""

from __future__ import annotations

from benchmarks.nexmark.asked import ANSWERS, ARRIVING, BID, EVER, Given, Nexmark
from cep.model.expr import Expr
from cep.model.functions import Function
from numa_cep import (
    SESSION,
    TIME,
    Query,
    avg,
    col,
    count,
    count_distinct,
    max_,
    min_,
    sum_,
    when,
    window_end,
    window_start,
)

_CHEAP, _DEAR = col("price") < 10_000, col("price") >= 1_000_000
_RANKS = {"rank1": _CHEAP, "rank2": ~_CHEAP & ~_DEAR, "rank3": _DEAR}
_BIDS = {"bids": count(), "starttime": window_start(), "endtime": window_end()}
_SQL_RANKS = {"rank1": "price < 10000", "rank2": "price >= 10000 AND price < 1000000", "rank3": "price >= 1000000"}
_DAY = "strftime(dateTime, '%Y-%m-%d')"


def _q5(given: Given) -> Query:
    counts = Query("q5").source(BID).aggregate("counts", TIME("10s", "2s"), by="auction", num=count(), start=window_start())
    most = counts.aggregate("most", TIME("2s"), by="start", most=max_("num"))
    hot = most.at("counts").join("hot", "most", TIME("2s"), on="start", condition=col("num") >= col("most"))
    return hot.map("pick", auction=col("auction"), num=col("num")).output(ANSWERS)


def _q7(given: Given) -> Query:
    """The greatest price comes out 1 µs before its window ends; a bid at the end is of both windows, as in the suite's SQL."""
    highest = Query("q7").source(BID).aggregate("highest", TIME("10s"), price=max_("price"))
    bids = highest.interval_join("bids", BID, "-9999999us", "1us", on="price")
    fields = ("auction", "price", "bidder", "dateTime", "extra")
    return bids.map("pick", {name: col(name) for name in fields}).output(ANSWERS)


def _q11(given: Given) -> Query:
    return Query("q11").source(BID).aggregate("sessions", SESSION("10s"), _BIDS, by="bidder").output(ANSWERS)


def _q12(given: Given) -> Query:
    """Where it is checked, the stamps come out too, as the event times of `stamped`."""
    arriving = Query("q12").source(ARRIVING)
    asked = arriving.aggregate("windows", TIME("10s"), _BIDS, by="bidder").output(ANSWERS)
    return asked.at("arriving").map("stamps", bidder=col("bidder")).output("stamped") if given.checked else asked


def _q15(given: Given) -> Query:
    functions = {"total_bids": count(), **_by_rank("bids"), **_distinct("bidder"), **_distinct("auction")}
    days = Query("q15").source(BID).aggregate("days", TIME("1d"), {"start": window_start(), **functions})
    return days.map("format", {"day": _text_of_day(), **{name: col(name) for name in functions}}).output(ANSWERS)


def _q16(given: Given) -> Query:
    functions = {"total_bids": count(), **_by_rank("bids"), **_distinct("bidder"), **_distinct("auction")}
    last = {"start": window_start(), "last": max_("dateTime")}
    days = Query("q16").source(BID).aggregate("days", TIME("1d"), {**last, **functions}, by="channel")
    minute = col("last").cast(str).substring(11, 5)
    fields = {"channel": col("channel"), "day": _text_of_day(), "minute": minute}
    return days.map("format", {**fields, **{name: col(name) for name in functions}}).output(ANSWERS)


def _q17(given: Given) -> Query:
    prices = {"min_price": min_("price"), "max_price": max_("price"), "avg_price": avg("price"), "sum_price": sum_("price")}
    functions = {"total_bids": count(), **_by_rank("bids"), **prices}
    days = Query("q17").source(BID).aggregate("days", TIME("1d"), {"start": window_start(), **functions}, by="auction")
    fields = {"auction": col("auction"), "day": _text_of_day()}
    return days.map("format", {**fields, **{name: col(name) for name in functions}}).output(ANSWERS)


def _q18(given: Given) -> Query:
    """Of several bids at the last moment the first in stream order."""
    last = Query("q18").source(BID).top("last", 1, TIME(EVER), by=("bidder", "auction"), order="-dateTime")
    return last.map("pick", {field.name: col(field.name) for field in BID.schema.fields}).output(ANSWERS)


def _q19(given: Given) -> Query:
    return Query("q19").source(BID).top("ten", 10, TIME(EVER), by="auction", order="-price").output(ANSWERS)


def _text_of_day() -> Expr:
    return col("start").cast(str).substring(0, 10)


def _by_rank(of: str) -> dict[str, Function]:
    return {f"{rank}_{of}": count(when(condition, 1)) for rank, condition in _RANKS.items()}


def _distinct(column: str) -> dict[str, Function]:
    ranks = {f"{rank}_{column}s": count_distinct(when(condition, col(column))) for rank, condition in _RANKS.items()}
    return {f"total_{column}s": count_distinct(column), **ranks}


def _sql_of(what: str) -> str:
    """`what`, and the same of each rank."""
    return ", ".join([what, *(f"{what} FILTER (WHERE {condition})" for condition in _SQL_RANKS.values())])


_SQL_COUNTS = ", ".join(_sql_of(what) for what in ("count(*)", "count(DISTINCT bidder)", "count(DISTINCT auction)"))

WINDOWED = (
    Nexmark(
        "q5",
        "auctions with the most bids in the last 10 s, every 2 s",
        ("bid",),
        _q5,
        """
        WITH counts AS (
            SELECT auction, count(*) AS num, start
            FROM (SELECT auction, unnest(range(moment - moment % 2000 - 8000, moment + 1, 2000)) AS start
                  FROM (SELECT auction, epoch_ms(dateTime) AS moment FROM bid))
            GROUP BY auction, start)
        SELECT auction, num FROM counts QUALIFY num = max(num) OVER (PARTITION BY start)
        """,
    ),
    Nexmark(
        "q7",
        "the highest bids of each 10 s",
        ("bid",),
        _q7,
        """
        WITH highest AS (
            SELECT max(price) AS most, epoch_ms(dateTime) // 10000 * 10000 + 10000 AS ends FROM bid GROUP BY ends)
        SELECT auction, price, bidder, dateTime, extra
        FROM bid JOIN highest ON price = most AND epoch_ms(dateTime) BETWEEN ends - 10000 AND ends
        """,
    ),
    Nexmark(
        "q11",
        "sessions of bidders, with a gap of 10 s",
        ("bid",),
        _q11,
        """
        WITH begun AS (
            SELECT *, dateTime - lag(dateTime) OVER bids > INTERVAL 10 SECOND AS anew FROM bid
            WINDOW bids AS (PARTITION BY bidder ORDER BY dateTime, n)),
        numbered AS (
            SELECT *, count(*) FILTER (WHERE anew) OVER (PARTITION BY bidder ORDER BY dateTime, n ROWS UNBOUNDED PRECEDING) AS session
            FROM begun)
        SELECT bidder, count(*), min(dateTime), max(dateTime) + INTERVAL 10 SECOND FROM numbered GROUP BY bidder, session
        """,
    ),
    Nexmark(
        "q12",
        "bids of each bidder in 10 s of processing time",
        ("arriving",),
        _q12,
        """
        SELECT bidder, count(*), make_timestamp(start), make_timestamp(start + 10000000)
        FROM (SELECT bidder, epoch_us(event_time) // 10000000 * 10000000 AS start FROM stamped) GROUP BY bidder, start
        """,
    ),
    Nexmark(
        "q15", "bids, bidders and auctions of each day, by price", ("bid",), _q15, f"SELECT {_DAY}, {_SQL_COUNTS} FROM bid GROUP BY {_DAY}"
    ),
    Nexmark(
        "q16",
        "the same of each channel and day",
        ("bid",),
        _q16,
        f"SELECT channel, {_DAY}, max(strftime(dateTime, '%H:%M')), {_SQL_COUNTS} FROM bid GROUP BY channel, {_DAY}",
    ),
    Nexmark(
        "q17",
        "bids and prices of each auction and day",
        ("bid",),
        _q17,
        f"""
        SELECT auction, {_DAY}, {_sql_of("count(*)")}, min(price), max(price), sum(price)::DOUBLE / count(*)::DOUBLE, sum(price)::BIGINT
        FROM bid GROUP BY auction, {_DAY}
        """,
    ),
    Nexmark(
        "q18",
        "the last bid of each bidder and auction",
        ("bid",),
        _q18,
        """
        SELECT auction, bidder, price, channel, url, dateTime, extra FROM bid
        QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC, n) = 1
        """,
    ),
    Nexmark(
        "q19",
        "the ten highest bids of each auction",
        ("bid",),
        _q19,
        """
        SELECT auction, bidder, price, channel, url, dateTime, extra,
            row_number() OVER (PARTITION BY auction ORDER BY price DESC, n) AS rank
        FROM bid QUALIFY rank <= 10
        """,
    ),
)
