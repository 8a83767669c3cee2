"""Queries that join persons, auctions and bids."""

from __future__ import annotations

from itertools import pairwise

from benchmarks.nexmark.asked import ANSWERS, AUCTION, BID, EVER, PERSON, Given, Nexmark
from numa_cep import TIME, Query, coalesce, col, count, lit, max_, sum_, when, window_start

_ALWAYS = (f"-{EVER}", EVER)
"""Bounds of an interval join that has none."""

_LAST = 10  # auctions of a seller, in q6


def _q3(given: Given) -> Query:
    here = Query("q3").source(PERSON).filter("here", col("state").is_in(["OR", "ID", "CA"]))
    chosen = here.source(AUCTION).filter("chosen", col("category") == 10)
    joined = chosen.interval_join("sold", "here", *_ALWAYS, on=[("seller", "id")], prefix="p_")
    return joined.map("pick", name=col("p_name"), city=col("p_city"), state=col("p_state"), id=col("id")).output(ANSWERS)


def _valid_bids(name: str, given: Given) -> Query:
    """Auctions with each bid that came while they were open; columns of the bid as `b_…`."""
    auctions, longest = Query(name).source(AUCTION), f"{given.open_ms_max}ms"
    in_time = col("b_dateTime") <= col("expires")
    return auctions.interval_join("valid", BID, "0s", longest, on=[("id", "auction")], condition=in_time, prefix="b_")


def _q4(given: Given) -> Query:
    prices = _valid_bids("q4", given).aggregate("highest", TIME(EVER), by=("id", "category"), final=max_("b_price"))
    sums = prices.aggregate("categories", TIME(EVER), by="category", sum=sum_("final"), auctions=count())
    return sums.map("average", category=col("category"), average=col("sum") // col("auctions")).output(ANSWERS)


def _q6(given: Given) -> Query:
    """Over ten auctions, as the suite's text says; its SQL takes eleven. The auctions of a seller are in the order of their winning bids.

    A bid has to keep its place in the stream for that, and a join gives its rows places of their own: so the state of an auction, which
    its row opens, judges the bids that follow.
    """
    begun = col("dateTime").epoch_ms()
    opened = {"auction": col("id"), "seller": col("seller"), "begins": begun, "ends": col("expires").epoch_ms(), "price": lit(-1)}
    offered = {"auction": col("auction"), "seller": lit(-1), "begins": begun, "ends": begun, "price": col("price")}
    both = Query("q6").source(AUCTION).map("opened", opened).source(BID).map("offered", offered).union("both", "opened", "offered")
    is_new = col("price") < 0
    judged = both.stateful_map(
        "judged",
        by="auction",
        ttl=None,
        state={"owner": -1, "closes": -1},
        update={
            "owner": when(is_new, col("seller")).otherwise(col("owner")),
            "closes": when(is_new, col("ends")).otherwise(col("closes")),
        },
        fields={
            "auction": col("auction"),
            "seller": col("owner"),
            "price": col("price"),
            "begins": col("begins"),
            "valid": (col("price") >= 0) & (col("begins") <= col("closes")),
        },
    )
    winners = judged.filter("in_time", col("valid")).top("winning", 1, TIME(EVER), by=("auction", "seller"), order=("-price", "begins"))
    prices = [f"price{i}" for i in range(_LAST)]
    known = [coalesce(col(each), 0) for each in prices]
    rolling = winners.stateful_map(
        "rolling",
        by="seller",
        ttl=None,
        state={"sold": 0, **{each: lit(None, "int64") for each in prices}},
        update={
            "sold": when(col("sold") < _LAST, col("sold") + 1).otherwise(col("sold")),
            prices[0]: col("price"),
            **{later: col(earlier) for earlier, later in pairwise(prices)},
        },
        fields={"seller": col("seller"), "average": sum(known[1:], start=known[0]) // col("sold")},
    )
    return rolling.output(ANSWERS)


def _q8(given: Given) -> Query:
    sellers = Query("q8").source(AUCTION).aggregate("sellers", TIME("10s"), by="seller", starttime=window_start())
    joined = sellers.source(PERSON).join("new", "sellers", TIME("10s"), on=[("id", "seller")])
    return joined.map("pick", id=col("id"), name=col("name"), starttime=col("starttime")).output(ANSWERS)


def _q9(given: Given) -> Query:
    """Bids of one price and one time would be in an order that SQL does not know; the witness would show it."""
    winning = _valid_bids("q9", given).top("winning", 1, TIME(EVER), by="id", order=("-b_price", "b_dateTime"))
    auctions = [field.name for field in AUCTION.schema.fields]
    bids = {"auction": "id", "bidder": "b_bidder", "price": "b_price", "bid_dateTime": "b_dateTime", "bid_extra": "b_extra"}
    fields = {name: col(of) for name, of in [*zip(auctions, auctions, strict=True), *bids.items()]}
    return winning.map("pick", fields).output(ANSWERS)


def _q20(given: Given) -> Query:
    chosen = Query("q20").source(AUCTION).filter("chosen", col("category") == 10)
    joined = chosen.source(BID).interval_join("listed", "chosen", *_ALWAYS, on=[("auction", "id")], prefix="a_")
    bids = {field.name: col(field.name) for field in BID.schema.fields}
    auctions = {f"a_{field.name}": col(f"a_{field.name}") for field in AUCTION.schema.fields if field.name != "id"}
    return joined.map("pick", {**bids, **auctions}).output(ANSWERS)


def _q23(given: Given) -> Query:
    persons = Query("q23").source(BID).interval_join("known", PERSON, *_ALWAYS, on=[("bidder", "id")], prefix="p_")
    joined = persons.interval_join("selling", AUCTION, *_ALWAYS, on=[("bidder", "seller")], prefix="a_")
    bids = {name: col(name) for name in ("bidder", "price", "channel", "url", "extra")}
    others = {f"p_{field.name}": field.name for field in PERSON.schema.fields if field.name != "dateTime"}
    sold = {f"a_{field.name}": field.name for field in AUCTION.schema.fields if field.name != "id"}
    return joined.map("pick", {**bids, **{name: col(name) for name in [*others, *sold]}}).output(ANSWERS)


_VALID = "auction a JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires"

JOINED = (
    Nexmark(
        "q3",
        "who sells what in three states",
        ("person", "auction"),
        _q3,
        """
        SELECT name, city, state, a.id FROM auction a JOIN person p ON seller = p.id WHERE category = 10 AND state IN ('OR', 'ID', 'CA')
        """,
    ),
    Nexmark(
        "q4",
        "the average winning price of each category",
        ("auction", "bid"),
        _q4,
        f"""
        SELECT category, sum(final)::BIGINT // count(*)
        FROM (SELECT category, max(price) AS final FROM {_VALID} GROUP BY id, category) GROUP BY category
        """,
    ),
    Nexmark(
        "q6",
        "the average winning price of a seller's last ten auctions",
        ("auction", "bid"),
        _q6,
        f"""
        WITH winning AS (
            SELECT a.seller, b.price, b.dateTime, b.n FROM {_VALID}
            QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime, b.n) = 1)
        SELECT seller, (sum(price) OVER last_ten)::BIGINT // (count(*) OVER last_ten) FROM winning
        WINDOW last_ten AS (PARTITION BY seller ORDER BY dateTime, n ROWS 9 PRECEDING)
        """,
    ),
    Nexmark(
        "q8",
        "new persons who sell in the same 10 s",
        ("person", "auction"),
        _q8,
        """
        WITH persons AS (SELECT id, name, epoch_ms(dateTime) // 10000 AS start FROM person),
        sellers AS (SELECT DISTINCT seller, epoch_ms(dateTime) // 10000 AS start FROM auction)
        SELECT id, name, make_timestamp(start * 10000000) FROM persons JOIN sellers USING (start) WHERE id = seller
        """,
    ),
    Nexmark(
        "q9",
        "the winning bid of each auction",
        ("auction", "bid"),
        _q9,
        f"""
        SELECT a.* EXCLUDE (n), auction, bidder, price, b.dateTime, b.extra FROM {_VALID}
        QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime) = 1
        """,
    ),
    Nexmark(
        "q20",
        "bids with their auction, of one category",
        ("bid", "auction"),
        _q20,
        "SELECT b.* EXCLUDE (n), a.* EXCLUDE (id, n) FROM bid b JOIN auction a ON auction = a.id WHERE category = 10",
    ),
    Nexmark(
        "q23",
        "bids of persons who sell too, with person and auction",
        ("bid", "person", "auction"),
        _q23,
        """
        SELECT bidder, price, channel, url, b.extra, p.* EXCLUDE (dateTime, n), a.* EXCLUDE (id, n)
        FROM bid b JOIN person p ON p.id = bidder JOIN auction a ON seller = bidder
        """,
    ),
)
