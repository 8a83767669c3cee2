"""Guessed passwords: three logins of a user fail, the next one succeeds, and all four lie within five minutes.

python3 bootstrap.py python examples/fraud.py
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from numa_cep import TRAILING, LocalCluster, Query, col, event, lag, row, sql, stream

Row = dict[str, Any]

FIVE_MINUTES_US = 5 * 60 * 1_000_000  # an instant less an instant is µs


def query() -> Query:
    logins = stream("logins", user=str, address=str, ok=bool, at="timestamp[ms]", event_time="at", disorder="5s")
    return (
        Query("fraud")
        .source(logins)
        # each login with the three of its user before it; a user that was away for five minutes begins anew
        .over("before", TRAILING(rows=4), by="user", ttl="5m", ok_1=lag("ok", 1), ok_2=lag("ok", 2), ok_3=lag("ok", 3), since=lag("at", 3))
        .filter("guessed", col("ok") & ~col("ok_1") & ~col("ok_2") & ~col("ok_3") & (col("at") - col("since") <= FIVE_MINUTES_US))
        .map("alarm", user=col("user"), address=col("address"), since=col("since"), at=col("at"))
        .output("alarms")
    )


def as_pattern() -> Query:
    logins = stream("logins", user=str, address=str, ok=bool, at="timestamp[ms]", event_time="at", disorder="5s")
    guessed = event("failed", ~col("ok")).times(3, by="next").next(event("fits", col("ok")))
    told = {"address": row("fits")["address"], "since": row("failed").first("at"), "at": row("fits")["at"]}
    return Query("fraud").source(logins).pattern("alarm", guessed, by="user", within="5m", measures=told).output("alarms")


#: The same as SQL: `cep sql -f` takes such a file.
SQL = """
CREATE STREAM logins ("user" VARCHAR NOT NULL, address VARCHAR NOT NULL, ok BOOLEAN NOT NULL, at TIMESTAMP(3),
    WATERMARK FOR at AS at - INTERVAL '5' SECOND);
CREATE SINK alarms WITH (connector = 'stream');
INSERT INTO alarms SELECT * FROM logins MATCH_RECOGNIZE (
    PARTITION BY "user" ORDER BY at MEASURES fit.address AS address, first(failed.at) AS since, fit.at AS at
    PATTERN (failed{3} fit) WITHIN INTERVAL '5' MINUTE DEFINE failed AS NOT ok, fit AS ok
);
"""


def as_sql() -> Query:
    return sql(SQL, name="fraud")


def made_up(seed: int = 1) -> dict[str, list[Row]]:
    """An hour of 40 users, whose typing errors are many, and of three guessers."""
    draw, start = random.Random(seed), datetime(2024, 5, 1, 9, tzinfo=UTC)

    def login(user: int, second: float, ok: bool, address: str) -> Row:
        return {"user": f"user-{user:02}", "address": address, "ok": ok, "at": start + timedelta(seconds=round(second, 3))}

    rows = [
        login(user, draw.uniform(0, 3600), draw.random() < 0.8, f"10.0.0.{user}") for user in range(40) for _ in range(draw.randint(1, 15))
    ]
    for user in draw.sample(range(40), 3):
        begin, guesses = draw.uniform(0, 3000), draw.randint(4, 9)
        rows += [login(user, begin + 12.5 * guess, guess == guesses - 1, "203.0.113.9") for guess in range(guesses)]
    return {"logins": sorted(rows, key=lambda row: row["at"])}


def report(alarms: list[Row]) -> str:
    found = sorted(alarms, key=lambda alarm: (alarm["at"], alarm["user"]))
    return "\n".join(f"{a['at']:%H:%M:%S}  {a['user']} from {a['address']}, after failures since {a['since']:%H:%M:%S}" for a in found)


def main() -> None:
    with LocalCluster() as cluster:
        alarms = cluster.deploy(query()).subscribe("alarms")
        with cluster.publisher("logins") as out:  # leaving the block ends the stream
            out.send(made_up()["logins"])
        print(report([alarm for batch in alarms for alarm in batch.to_pylist()]))


if __name__ == "__main__":
    main()
