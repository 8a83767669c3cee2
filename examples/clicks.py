"""Visits to a shop: the clicks of a visitor until half an hour of silence, and how far visits come on the way view → cart → buy.

python3 bootstrap.py python examples/clicks.py
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from numa_cep import SESSION, TIME, LocalCluster, Query, coalesce, col, count, event, lit, max_, row, sql, stream, sum_, when, window_start

Row = dict[str, Any]


def query() -> Query:
    clicks = stream("clicks", visitor=str, action=str, cents=int, at="timestamp[ms]", event_time="at", disorder="10s")
    action, step = col("action"), col("step")
    further = (  # a step counts only after the one before it
        when((step == 0) & (action == "view"), 1)
        .when((step == 1) & (action == "cart"), 2)
        .when((step == 2) & (action == "buy"), 3)
        .otherwise(step)
    )
    return (
        Query("clicks")
        .source(clicks)
        .stateful_map(
            "steps",
            by="visitor",
            ttl="30m",  # a visit ends for the steps when it ends for the session
            state={"step": 0},
            update={"step": further},
            fields={"visitor": col("visitor"), "step": step, "in_cart": when(action == "cart", col("cents")).otherwise(0)},
        )
        .aggregate("visit", SESSION("30m"), by="visitor", start=window_start(), clicks=count(), step=max_("step"), in_cart=sum_("in_cart"))
        .output("visits")
        .aggregate(
            "hour",
            TIME("1h"),
            hour=window_start(),
            visits=count(),
            view=count(when(step >= 1, 1)),  # a `when` without an otherwise is NULL, and NULL is not counted
            cart=count(when(step >= 2, 1)),
            buy=count(when(step >= 3, 1)),
        )
        .output("funnel")
    )


def as_pattern() -> Query:
    clicks = stream("clicks", visitor=str, action=str, cents=int, at="timestamp[ms]", event_time="at", disorder="10s")
    action, step = col("action"), col("step")
    unseen, view, seen = event("unseen", action != "view"), event("view", action == "view"), event("seen", action != "cart")
    cart, carted = event("cart", action == "cart"), event("carted", action != "buy")
    buy, bought = event("buy", action == "buy"), event("bought")
    bought_something = buy.next(bought.times(0, None)).optional()
    carted_something = cart.next(carted.times(0, None)).next(bought_something).optional()
    visit = unseen.times(0, None).next(view).next(seen.times(0, None)).next(carted_something) | unseen.one_or_more(by="next")
    each = [row(name) for name in ("unseen", "view", "seen", "cart", "carted", "buy", "bought")]
    told = {
        "start": coalesce(row("unseen").first("at"), row("view")["at"]),
        "clicks": sum((one.count() for one in each), lit(0)),
        "step": when(row("buy").count() > 0, 3).when(row("cart").count() > 0, 2).otherwise(row("view").count()),
        "in_cart": sum((one.sum("in_cart").fill_null(0) for one in each), lit(0)),
    }
    return (
        Query("clicks")
        .source(clicks)
        .map("carried", visitor=col("visitor"), action=action, at=col("at"), in_cart=when(action == "cart", col("cents")).otherwise(0))
        .pattern("visit", visit, by="visitor", ttl="30m", measures=told)
        .output("visits")
        .aggregate(
            "hour",
            TIME("1h"),
            hour=window_start(),
            visits=count(),
            view=count(when(step >= 1, 1)),
            cart=count(when(step >= 2, 1)),
            buy=count(when(step >= 3, 1)),
        )
        .output("funnel")
    )


#: The same as SQL: `cep sql -f` takes such a file.
SQL = """
CREATE STREAM clicks (visitor VARCHAR NOT NULL, action VARCHAR NOT NULL, cents BIGINT NOT NULL, at TIMESTAMP(3),
    WATERMARK FOR at AS at - INTERVAL '10' SECOND);
CREATE SINK visits WITH (connector = 'stream');
CREATE SINK funnel WITH (connector = 'stream');
CREATE VIEW visit AS SELECT visitor, start, clicks, step, in_cart FROM (
    SELECT *, CASE action WHEN 'cart' THEN cents ELSE 0 END AS carried FROM clicks
) MATCH_RECOGNIZE (
    PARTITION BY visitor ORDER BY at
    MEASURES coalesce(first(n.at), v.at) AS start,
        count(n.*) + count(v.*) + count(c.*) + count(k.*) + count(b.*) + count(y.*) + count(r.*) AS clicks,
        CASE WHEN count(y.*) > 0 THEN 3 WHEN count(k.*) > 0 THEN 2 ELSE count(v.*) END AS step,
        coalesce(sum(n.carried), 0) + coalesce(sum(k.carried), 0) + coalesce(sum(b.carried), 0) + coalesce(sum(r.carried), 0) AS in_cart
    PATTERN (n* v c* (k b* (y r*)?)? | n+) TTL INTERVAL '30' MINUTE
    DEFINE n AS action <> 'view', v AS action = 'view', c AS action <> 'cart', k AS action = 'cart',
        b AS action <> 'buy', y AS action = 'buy'
);
INSERT INTO visits SELECT * FROM visit;
INSERT INTO funnel SELECT window_start AS hour, count(*) AS visits, count(*) FILTER (WHERE step >= 1) AS view,
    count(*) FILTER (WHERE step >= 2) AS cart, count(*) FILTER (WHERE step >= 3) AS buy
FROM TABLE(TUMBLE(TABLE visit, DESCRIPTOR(rowtime), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
"""


def as_sql() -> Query:
    return sql(SQL, name="clicks")


def made_up(seed: int = 1) -> dict[str, list[Row]]:
    """Three hours of 60 visitors: each comes once to three times, and clicks about once a minute."""
    draw, start = random.Random(seed), datetime(2024, 5, 1, 9, tzinfo=UTC)
    rows = []
    for visitor in range(60):
        for _ in range(draw.randint(1, 3)):
            second = draw.uniform(0, 3 * 3600)
            for _ in range(draw.randint(1, 12)):
                (action,) = draw.choices(["search", "view", "cart", "buy"], [3, 5, 2, 1])
                cents = 0 if action == "search" else draw.randint(5, 150) * 100 - 1
                rows.append(
                    {"visitor": f"v{visitor:02}", "action": action, "cents": cents, "at": start + timedelta(seconds=round(second, 3))}
                )
                second += draw.expovariate(1 / 60)
    return {"clicks": sorted(rows, key=lambda row: row["at"])}


def report(visits: list[Row], funnel: list[Row]) -> str:
    hours = sorted(funnel, key=lambda each: each["hour"])
    left = sorted((visit for visit in visits if visit["step"] == 2), key=lambda visit: (-visit["in_cart"], visit["visitor"]))
    return "\n".join(
        [
            "visits that ended, by hour",
            *(f"{h['hour']:%H:%M}  {h['visits']:3}: {h['view']:3} view → {h['cart']:3} cart → {h['buy']:3} buy" for h in hours),
            f"carts left behind, the fullest of {len(left)}",
            *(f"{v['start']:%H:%M}  {v['visitor']} {v['in_cart'] / 100:7.2f} after {v['clicks']} clicks" for v in left[:3]),
        ]
    )


def main() -> None:
    with LocalCluster() as cluster:
        running = cluster.deploy(query())
        visits, funnel = running.subscribe("visits"), running.subscribe("funnel")
        with cluster.publisher("clicks") as out:
            out.send(made_up()["clicks"])
        print(report(*([row for batch in answers for row in batch.to_pylist()] for answers in (visits, funnel))))


if __name__ == "__main__":
    main()
