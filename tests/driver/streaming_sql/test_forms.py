"""Each form of SQL is the document that the builder makes.

Tests `binder.py`, `building.py`, `expressions.py`, `functions.py`, `grouping.py`, `joins.py`, `over.py`, `reading.py`, `relation.py`,
`scope.py`, `selecting.py`, `types.py`, `windows.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from driver import (
    CUMULATE,
    SESSION,
    SIZE,
    TIME,
    TRAILING,
    TRANSACTION,
    UNBOUNDED,
    Query,
    arg_max,
    avg,
    coalesce,
    col,
    concat,
    count,
    count_distinct,
    first,
    format_time,
    lag,
    last,
    lit,
    max_,
    min_,
    nullif,
    quantile,
    row_number,
    sql,
    stream,
    sum_,
    udf,
    when,
    window_end,
    window_start,
)
from driver.builder.functions import aggregate_function

BID = stream(
    "bid",
    {"auction": int, "price": int, "channel": "string?", "at": "timestamp[ms]", "tags": "list<string>?"},
    event_time="at",
    disorder="4s",
)
AUCTION = stream(
    "auction", {"id": int, "seller": int, "at": "timestamp[ms]", "expires": "timestamp[ms]", "kind": str}, event_time="at", disorder="4s"
)
ARRIVING = stream("arriving", bidder=int)
STREAMS = [BID, AUCTION, ARRIVING]
bid, auction = Query("sql").source(BID), Query("sql").source(AUCTION)
EVERY_COLUMN = {name: col(name) for name in BID.schema.names}
TUMBLE = "TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND))"
HOP = "TABLE(HOP(TABLE bid, DESCRIPTOR(at), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
BOUNDS = {"window_start": window_start(), "window_end": window_end()}
EVER = TIME("36500d")

FORMS: dict[str, tuple[str, Callable[[], Query]]] = {
    "everything": ("SELECT * FROM bid", lambda: bid),
    "columns": ("SELECT price, Auction AS a FROM Bid", lambda: bid.map("select", price=col("price"), a=col("auction"))),
    "and some more": (
        "SELECT *, price * 2 AS twice FROM bid WHERE price > 1",
        lambda: bid.filter("where", col("price") > 1).with_columns("select", twice=col("price") * 2),
    ),
    "but some": ("SELECT * EXCEPT (tags, at, channel) FROM bid", lambda: bid.map("select", auction=col("auction"), price=col("price"))),
    "expressions": (
        "SELECT price * 0.9 AS a, div(price, 2) % 3 AS b, -price AS c, price / 2 AS d, lower(channel) || 'x' AS e FROM bid",
        lambda: bid.map(
            "select",
            a=col("price") * 0.9,
            b=col("price") // 2 % 3,
            c=-col("price"),
            d=col("price") / 2,
            e=concat(col("channel").lower(), "x"),
        ),
    ),
    "choices": (
        "SELECT CASE WHEN price > 9 THEN 'a' WHEN price > 5 THEN NULL ELSE 'c' END AS a, CASE price WHEN 1 THEN 2 END AS b, "
        "coalesce(channel, '') AS c, nullif(price, 0) AS d FROM bid",
        lambda: bid.map(
            "select",
            a=when(col("price") > 9, "a").when(col("price") > 5, lit(None, "string")).otherwise("c"),
            b=when(col("price") == 1, 2),
            c=coalesce(col("channel"), ""),
            d=nullif(col("price"), 0),
        ),
    ),
    "casts": (
        "SELECT CAST(price AS VARCHAR) AS a, TRY_CAST(channel AS BIGINT) AS b, price::DOUBLE AS c, CAST(NULL AS INT) AS d, "
        "CAST(INTERVAL '1' SECOND AS BIGINT) AS e FROM bid",
        lambda: bid.map(
            "select",
            a=col("price").cast(str),
            b=col("channel").try_cast(int),
            c=col("price").cast(float),
            d=lit(None, "int32"),
            e=lit(1_000_000),
        ),
    ),
    "time": (
        "SELECT at + INTERVAL '90' SECOND AS a, date_trunc('hour', at) AS b, EXTRACT(YEAR FROM at) AS c, hour(at) AS d, "
        "date_format(at, 'yyyy-MM-dd HH:mm') AS e, date_format(at, 'yyyy-MM-dd''T''HH:mm ''o''''clock (HH)''') AS f, weekday(at) AS g, "
        "to_timestamp(channel) AS h, to_timestamp_ltz(price, 0) AS i FROM bid WHERE at > TIMESTAMP '2024-01-01 00:00:00'",
        lambda: bid.filter("where", col("at") > lit("2024-01-01 00:00:00", "timestamp[us]")).map(
            "select",
            a=col("at") + 90_000_000,
            b=col("at").truncate("1h"),
            c=col("at").year(),
            d=col("at").hour(),
            e=format_time(col("at"), "%Y-%m-%d %H:%M"),
            f=format_time(col("at"), "%Y-%m-%dT%H:%M o'clock (HH)"),
            g=col("at").weekday() % 7,
            h=col("channel").cast("timestamp").cast("timestamp[us]"),
            i=col("price").cast("timestamp[s]"),
        ),
    ),
    "texts": (
        "SELECT substring(channel, 2, 3) AS a, SUBSTRING(channel FROM 1 FOR 2) AS b, split_index(channel, '/', 1) AS c, tags[1] AS d, "
        "regexp_extract(channel, 'a(b)', 1) AS e, TRIM(channel) AS f, lpad(channel, 5, '0') AS g, length(channel) AS h FROM bid",
        lambda: bid.map(
            "select",
            a=col("channel").substring(1, 3),
            b=col("channel").substring(0, 2),
            c=col("channel").split("/").element(1),
            d=col("tags").element(0),
            e=col("channel").extract("a(b)", 1),
            f=col("channel").trim(),
            g=col("channel").pad_left(5, "0"),
            h=col("channel").length(),
        ),
    ),
    "conditions": (
        "SELECT * FROM bid WHERE price BETWEEN 1 AND 9 AND (channel IN ('a', 'b') OR channel IS NULL) AND NOT channel LIKE 'a%'",
        lambda: bid.filter(
            "where",
            col("price").between(1, 9)
            & ((col("channel").is_in(["a", "b"]) | col("channel").is_null()) & ~col("channel").matches("(?s)^a.*$")),
        ),
    ),
    "a user's function": (
        "CREATE FUNCTION score RETURNS DOUBLE AS 'features:score'; SELECT score(price) AS s FROM bid",
        lambda: bid.map("select", s=udf("features:score", returns="float64?")(col("price"))),
    ),
    "a list as rows": (
        "SELECT b.price, u.tag FROM bid b CROSS JOIN UNNEST(tags) AS u (tag)",
        lambda: bid.flat_map("unnest", {**EVERY_COLUMN, "tag": col("tags")}, explode="tag").map(
            "select", price=col("price"), tag=col("tag")
        ),
    ),
    "a tumbling window": (
        f"SELECT auction, window_start AS s, count(*) AS n, sum(price) AS total FROM {TUMBLE} GROUP BY auction, window_start, window_end",
        lambda: bid.aggregate("group", TIME("10s"), {"s": window_start(), "n": count(), "total": sum_("price")}, by="auction"),
    ),
    "with an offset": (
        "SELECT count(*) AS n FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '1' DAY, OFFSET => -INTERVAL '2' HOUR)) "
        "GROUP BY window_start, window_end",
        lambda: bid.aggregate("group", TIME("1d", offset="-2h"), n=count()),
    ),
    "a hopping window": (
        f"SELECT auction, avg(price) AS mean FROM {HOP} GROUP BY auction, window_start, window_end HAVING avg(price) > 3",
        lambda: bid.aggregate("group", TIME("10s", "2s"), by="auction", mean=avg("price")).filter("having", col("mean") > 3),
    ),
    "a cumulating window": (
        "SELECT max(price) AS best FROM TABLE(CUMULATE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' MINUTE, INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end",
        lambda: bid.aggregate("group", CUMULATE("10m", "1h"), best=max_("price")),
    ),
    "sessions": (
        "SELECT auction, count(*) AS n, window_start, window_end FROM TABLE(SESSION(TABLE bid PARTITION BY auction, DESCRIPTOR(at), "
        "INTERVAL '5' MINUTE)) GROUP BY auction, window_start, window_end",
        lambda: bid.aggregate("group", SESSION("5m"), {"n": count(), **BOUNDS}, by="auction"),
    ),
    "windows by rows": (
        "SELECT auction, last(price) AS p FROM TABLE(SIZE(TABLE bid PARTITION BY auction, 100, 10)) "
        "GROUP BY auction, window_start, window_end",
        lambda: bid.aggregate("group", SIZE(100, 10), by="auction", p=last("price")),
    ),
    "transactions": (
        "SELECT auction, first(price) AS p FROM TABLE(TRANSACTION(TABLE bid PARTITION BY auction, OPEN => channel = 'a', "
        "CLOSE => price > 9)) GROUP BY auction, window_start, window_end",
        lambda: bid.aggregate("group", TRANSACTION(col("channel") == "a", col("price") > 9), by="auction", p=first("price")),
    ),
    "rows stamped as they arrive": (
        "SELECT bidder, count(*) AS n FROM TABLE(TUMBLE(TABLE arriving, DESCRIPTOR(rowtime), INTERVAL '10' SECOND)) "
        "GROUP BY bidder, window_start, window_end",
        lambda: Query("sql").source(ARRIVING).aggregate("group", TIME("10s"), by="bidder", n=count()),
    ),
    "functions of groups": (
        f"SELECT count(DISTINCT channel) AS a, count(*) FILTER (WHERE price > 3) AS b, arg_max(channel, price) AS c, sum(price * 2) AS d, "
        f"approx_quantile(price, 0.5) AS e, count(channel) AS f FROM {TUMBLE} GROUP BY window_start, window_end",
        lambda: bid.aggregate(
            "group",
            TIME("10s"),
            a=count_distinct("channel"),
            b=count(when(col("price") > 3, 1)),
            c=arg_max("channel", by="price"),
            d=sum_(col("price") * 2),
            e=quantile("price", 0.5),
            f=count("channel"),
        ),
    ),
    "a user's aggregate": (
        "CREATE AGGREGATE FUNCTION best RETURNS BIGINT AS 'features:Best'; "
        f"SELECT auction, best(price) AS b FROM {TUMBLE} GROUP BY auction, window_start, window_end",
        lambda: bid.aggregate("group", TIME("10s"), {"b": aggregate_function("features:Best", "price", returns="int64?")}, by="auction"),
    ),
    "answers of a window, grouped again": (
        f"WITH counts AS (SELECT auction, window_start, window_end, count(*) AS n FROM {HOP} GROUP BY auction, window_start, window_end) "
        "SELECT window_start, max(n) AS most FROM counts GROUP BY window_start, window_end",
        lambda: bid.aggregate("group", TIME("10s", "2s"), {**BOUNDS, "n": count()}, by="auction").aggregate(
            "group_2", TIME("2s"), by="window_start", most=max_("n")
        ),
    ),
    "an answer per row": (
        "SET state_ttl = '1 d'; SELECT auction, count(*) AS n FROM bid GROUP BY auction EMIT CHANGES",
        lambda: bid.aggregate("group", UNBOUNDED(ttl="1d"), by="auction", n=count()),
    ),
    "answers every so often": (
        "SELECT auction, count(*) AS n FROM bid GROUP BY auction EMIT EVERY INTERVAL '1' MINUTE",
        lambda: bid.aggregate("group", UNBOUNDED("1m", ttl=None), by="auction", n=count()),
    ),
    "the number of a row": (
        "SELECT price, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY at) AS n FROM bid",
        lambda: bid.over("number", TRAILING(rows=1), by="auction", rank=row_number()).map("select", price=col("price"), n=col("rank")),
    ),
    "every second row": (
        "SELECT price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY at) AS n FROM bid) WHERE n % 2 = 0 AND price > 1",
        lambda: (
            bid.over("number", TRAILING(rows=1), by="auction", rank=row_number())
            .filter("where", (col("rank") % 2 == 0) & (col("price") > 1))
            .map("select", price=col("price"))
        ),
    ),
    "some of the first rows, and their number": (
        "SET state_ttl = '1 h'; SELECT price, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY at) * 10 AS n FROM bid "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY auction ORDER BY at) <= 3",
        lambda: (
            bid.over("over", TRAILING(rows=1), by="auction", ttl="1h", row_number=row_number())
            .over("number", TRAILING(rows=1), by="auction", ttl="1h", rank=row_number())
            .filter("qualify", col("rank") <= 3)
            .map("select", price=col("price"), n=col("row_number") * 10)
        ),
    ),
    "answers at the end": (
        "SELECT auction, count(*) AS n FROM bid GROUP BY auction EMIT AT END",
        lambda: bid.aggregate("group", UNBOUNDED(f"{2**56}us", ttl=None), by="auction", n=count()),
    ),
    "over a span": (
        "SELECT *, sum(price) OVER (PARTITION BY auction ORDER BY at RANGE BETWEEN INTERVAL '10' MINUTE PRECEDING AND CURRENT ROW) AS s "
        "FROM bid",
        lambda: bid.over("over", TRAILING("10m"), by="auction", s=sum_("price")),
    ),
    "over rows, by a name": (
        "SELECT *, min(price) OVER w AS m, lag(price, 2) OVER w AS l FROM bid "
        "WINDOW w AS (PARTITION BY auction ORDER BY at ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)",
        lambda: bid.over("over", TRAILING(rows=10), by="auction", m=min_("price"), l=lag("price", 2)),
    ),
    "the first rows of a window": (
        f"SELECT auction, price, rank FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, auction "
        f"ORDER BY price DESC) AS rank FROM {TUMBLE}) WHERE rank <= 3",
        lambda: bid.top("top", 3, TIME("10s"), by="auction", order="-price").map(
            "select", auction=col("auction"), price=col("price"), rank=col("rank")
        ),
    ),
    "the first rows of answers": (
        f"SELECT auction, n, window_end FROM (SELECT auction, count(*) AS n, window_start, window_end FROM {HOP} "
        "GROUP BY auction, window_start, window_end) "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, auction) < 4",
        lambda: (
            bid.aggregate("group", TIME("10s", "2s"), {"n": count(), **BOUNDS}, by="auction")
            .top("top", 3, TIME("2s"), order=["-n", "auction"])
            .map("select", auction=col("auction"), n=col("n"), window_end=col("window_end"))
        ),
    ),
    "the last of a window": (
        f"SELECT auction, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, auction ORDER BY at DESC) AS rn "
        f"FROM {TUMBLE}) WHERE rn = 1",
        lambda: bid.deduplicate("last", by="auction", keep="last", window=TIME("10s")).map(
            "select", auction=col("auction"), price=col("price")
        ),
    ),
    "the first of a key": (
        "SET state_ttl = '1 h'; SELECT auction, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY at) AS rn FROM bid) "
        "WHERE rn = 1",
        lambda: bid.deduplicate("first", by="auction", ttl="1h").map("select", auction=col("auction"), price=col("price")),
    ),
    "the first rows at the end": (
        "SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank FROM bid QUALIFY rank <= 10 EMIT AT END",
        lambda: bid.top("top", 10, EVER, by="auction", order="-price"),
    ),
    "different rows": (
        "SELECT DISTINCT auction, price FROM bid",
        lambda: bid.map("select", auction=col("auction"), price=col("price")).deduplicate("distinct", by=["auction", "price"], ttl=None),
    ),
    "in the order of event time": ("SELECT * FROM bid ORDER BY at", lambda: bid.sort("sort")),
    "one behind the other": (
        "SELECT auction, at FROM bid UNION ALL SELECT id, at FROM auction",
        lambda: (
            bid.map("select", auction=col("auction"), at=col("at"))
            .source(AUCTION)
            .map("select_2", auction=col("id"), at=col("at"))
            .union("union", "select", "select_2")
        ),
    ),
    "a join of windows": (
        "SELECT b.auction, a.seller FROM (SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND))) b "
        "JOIN (SELECT * FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(at), INTERVAL '10' SECOND))) a "
        "ON b.auction = a.id AND b.window_start = a.window_start AND b.window_end = a.window_end AND b.price > a.seller",
        lambda: bid.join("join", AUCTION, TIME("10s"), on={"auction": "id"}, prefix="a_", condition=col("price") > col("a_seller")).map(
            "select", auction=col("auction"), seller=col("a_seller")
        ),
    ),
    "a join of intervals": (
        "SELECT b.price, a.seller FROM auction a LEFT JOIN bid b ON a.id = b.auction AND b.at BETWEEN a.at - INTERVAL '1' SECOND AND "
        "a.at + INTERVAL '1' HOUR AND b.at <= a.expires",
        lambda: (
            auction.source(BID)
            .at("auction")
            .interval_join("join", BID, "-1s", "1h", on={"id": "auction"}, how="left", prefix="b_", condition=col("b_at") <= col("expires"))
            .map("select", price=col("b_price"), seller=col("seller"))
        ),
    ),
    "strict bounds, of which the nearer ones hold": (
        "SELECT a.id FROM auction a JOIN bid b ON a.id = b.auction AND b.at > a.at AND b.at >= a.at - INTERVAL '5' SECOND "
        "AND b.at - INTERVAL '6' SECOND < a.at AND a.at + INTERVAL '9' SECOND >= b.at",
        lambda: (
            auction.source(BID)
            .at("auction")
            .interval_join("join", BID, "1us", "5999999us", on={"id": "auction"}, prefix="b_")
            .map("select", id=col("id"))
        ),
    ),
    "a join for a time": (
        "SET state_ttl = '1 d'; SELECT a.seller, price FROM auction a, bid b WHERE a.id = b.auction AND a.kind = 'x' AND b.price > 3",
        lambda: (
            auction.source(BID)
            .at("auction")
            .filter("where", col("kind") == "x")
            .at("bid")
            .filter("where_2", col("price") > 3)
            .at("where")
            .join("join", "where_2", ttl="1d", on={"id": "auction"}, prefix="b_")
            .map("select", seller=col("seller"), price=col("b_price"))
        ),
    ),
    "a join with the last row": (
        "SELECT b.price, a.seller FROM bid b ASOF LEFT JOIN auction a ON b.auction = a.id AND b.at >= a.at AND "
        "a.at >= b.at - INTERVAL '1' HOUR",
        lambda: bid.as_of_join("join", AUCTION, on={"auction": "id"}, how="left", tolerance="1h", prefix="a_").map(
            "select", price=col("price"), seller=col("a_seller")
        ),
    ),
    "the same, as of a time": (
        "SELECT b.price, a.seller FROM bid b JOIN auction FOR SYSTEM_TIME AS OF b.at AS a ON b.auction = a.id",
        lambda: bid.as_of_join("join", AUCTION, on={"auction": "id"}, prefix="a_").map(
            "select", price=col("price"), seller=col("a_seller")
        ),
    ),
    "a table": (
        "CREATE TABLE side (key BIGINT NOT NULL, value VARCHAR) WITH (path = '/d/side.csv', refresh = '1 m'); "
        "SELECT price, value FROM bid JOIN side ON auction % 10 = key",
        lambda: (
            bid.with_columns("lookup_values", key=col("auction") % 10)
            .lookup("lookup", ("/d/side.csv", {"key": int, "value": "string?"}), on="key", refresh="1m")
            .map("select", price=col("price"), value=col("value"))
        ),
    ),
    "into sinks": (
        "CREATE SINK f WITH (path = '/d/out', format = 'parquet'); CREATE VIEW dear AS SELECT auction, price FROM bid WHERE price > 9; "
        "INSERT INTO f SELECT * FROM dear; INSERT INTO plain SELECT price FROM bid",
        lambda: (
            bid.filter("where", col("price") > 9)
            .map("select", auction=col("auction"), price=col("price"))
            .output("f", "/d/out", format="parquet")
            .at("bid")
            .map("select_2", price=col("price"))
            .output("plain")
        ),
    ),
    "options": (
        "SET parallelism = 2; SET recover = 'on-commit'; SELECT * FROM bid",
        lambda: bid.options(parallelism=2, recover="on-commit"),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_the_builders_document(form: str) -> None:
    text, build = FORMS[form]
    made, built = sql(text, streams=STREAMS), build()
    if not made.outputs:
        made, built = made.output("answers"), built.output("answers")
    expected = built.to_json()
    assert made.to_json() | {"streams": []} == expected | {"streams": []}
    assert sorted(each["name"] for each in made.to_json()["streams"]) == sorted(each["name"] for each in expected["streams"])
    made.build()


def test_streams_that_are_known_are_read_and_not_declared() -> None:
    made = sql("SELECT auction FROM bid", known=[BID])
    assert (made.streams, [each.name for each in made.operators]) == ((), ["select"])


def test_the_builder_goes_on() -> None:
    made = sql("SELECT auction, price FROM bid WHERE price > 3", streams=STREAMS).filter("more", col("price") > 5).output("answers")
    assert [each.name for each in made.build().operators] == ["where", "select", "more"]
