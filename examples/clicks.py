"""Visits to a shop: the clicks of a visitor until half an hour of silence, and how far visits come on the way view → cart → buy.

python3 bootstrap.py python examples/clicks.py
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from numa_cep import SESSION, TIME, LocalCluster, Query, col, count, max_, stream, sum_, when, window_start

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
