"""Bars of a market: open, high, low, close and volume of each minute and symbol, with the quote that stood when the minute ended.

python3 bootstrap.py python examples/market.py
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from numa_cep import TIME, LocalCluster, Query, col, first, last, max_, min_, sql, stream, sum_, window_start

Row = dict[str, Any]


def query() -> Query:
    trades = stream("trades", symbol=str, price=float, size=int, at="timestamp[ms]", event_time="at", disorder="1s")
    quotes = stream("quotes", symbol=str, bid=float, ask=float, at="timestamp[ms]", event_time="at", disorder="1s")
    bar = {name: col(name) for name in ("symbol", "minute", "open", "high", "low", "close", "volume")}
    return (
        Query("market")
        .source(trades)
        .aggregate(
            "bar",
            TIME("1m"),
            by="symbol",
            minute=window_start(),
            open=first("price"),
            high=max_("price"),
            low=min_("price"),
            close=last("price"),
            volume=sum_("size"),
            turnover=sum_(col("price") * col("size")),
        )
        # a bar comes out at the end of its minute; a quote of more than ten seconds before that is old
        .as_of_join("quoted", quotes, on="symbol", how="left", tolerance="10s", prefix="quote_")
        .map("pick", bar, average=col("turnover") / col("volume"), bid=col("quote_bid"), ask=col("quote_ask"))
        .output("bars")
    )


#: The same as SQL: `cep sql -f` takes such a file.
SQL = """
CREATE STREAM trades (symbol VARCHAR NOT NULL, price DOUBLE NOT NULL, size BIGINT NOT NULL, at TIMESTAMP(3),
    WATERMARK FOR at AS at - INTERVAL '1' SECOND);
CREATE STREAM quotes (symbol VARCHAR NOT NULL, bid DOUBLE NOT NULL, ask DOUBLE NOT NULL, at TIMESTAMP(3),
    WATERMARK FOR at AS at - INTERVAL '1' SECOND);
CREATE SINK bars WITH (connector = 'stream');
INSERT INTO bars
SELECT b.symbol, minute, open, high, low, close, volume, turnover / volume AS average, bid, ask FROM (
    SELECT symbol, window_start AS minute, window_time, first(price) AS open, max(price) AS high, min(price) AS low, last(price) AS close,
        sum(size) AS volume, sum(price * size) AS turnover
    FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(at), INTERVAL '1' MINUTE)) GROUP BY symbol, window_start, window_end
) AS b ASOF LEFT JOIN quotes q ON b.symbol = q.symbol AND q.at BETWEEN window_time - INTERVAL '10' SECOND AND window_time;
"""


def as_sql() -> Query:
    return sql(SQL, name="market")


def made_up(seed: int = 1) -> dict[str, list[Row]]:
    """Four minutes of two symbols, with a quote about every second and a trade about every two; nothing is quoted of B in the third."""
    draw, start = random.Random(seed), datetime(2024, 5, 1, 9, 30, tzinfo=UTC)
    trades, quotes = [], []
    for symbol, middle in (("A", 100.0), ("B", 42.0)):
        second = 0.0
        while (second := second + draw.expovariate(1.0)) < 240:
            at = start + timedelta(seconds=round(second, 3))
            middle += draw.gauss(0, 0.05)
            bid, ask = round(middle - 0.02, 2), round(middle + 0.02, 2)
            if symbol == "A" or not 120 <= second < 180:
                quotes.append({"symbol": symbol, "bid": bid, "ask": ask, "at": at})
            if draw.random() < 0.5:
                trades.append({"symbol": symbol, "price": draw.choice([bid, ask]), "size": draw.randint(1, 9) * 100, "at": at})
    return {"trades": sorted(trades, key=lambda row: row["at"]), "quotes": sorted(quotes, key=lambda row: row["at"])}


def report(bars: list[Row]) -> str:
    def line(bar: Row) -> str:
        prices = " ".join(f"{bar[name]:7.2f}" for name in ("open", "high", "low", "close", "average"))
        quote = "no quote" if bar["bid"] is None else f"{bar['bid']:.2f} / {bar['ask']:.2f}"
        return f"{bar['minute']:%H:%M}  {bar['symbol']}  {prices} {bar['volume']:7}  {quote}"

    found = sorted(bars, key=lambda bar: (bar["symbol"], bar["minute"]))
    return "\n".join(["            open    high     low   close average  volume  bid / ask", *map(line, found)])


def main() -> None:
    rows = made_up()
    with LocalCluster() as cluster:
        bars = cluster.deploy(query()).subscribe("bars")
        with cluster.publisher("trades") as trades, cluster.publisher("quotes") as quotes:
            trades.send(rows["trades"])
            quotes.send(rows["quotes"])
        print(report([bar for batch in bars for bar in batch.to_pylist()]))


if __name__ == "__main__":
    main()
