"""Statements that are refused: what is said of each is judged by a reader, held by a test, and a page of docs (`errors_page`)."""

from __future__ import annotations

from collections.abc import Iterator

from driver.streaming_sql.errors import CODES, SqlError
from driver.streaming_sql.session import query_of, session_of

#: What the statements read.
GIVEN = """
CREATE STREAM bid (auction BIGINT NOT NULL, bidder BIGINT NOT NULL, price BIGINT, channel VARCHAR, tags ARRAY<VARCHAR>, at TIMESTAMP(3),
    WATERMARK FOR at AS at - INTERVAL '4' SECOND);
CREATE STREAM auction (id BIGINT NOT NULL, seller BIGINT, price BIGINT, at TIMESTAMP(3), expires TIMESTAMP(3), WATERMARK FOR at AS at);
CREATE STREAM arriving (k BIGINT);
CREATE TABLE side (key BIGINT NOT NULL, value VARCHAR) WITH (path = '/data/side.csv');
CREATE SINK typed (a BIGINT, b VARCHAR);
CREATE VIEW running AS SELECT auction, count(*) AS n FROM bid GROUP BY auction EMIT CHANGES;
"""

_TUMBLE = "TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND))"

_MINUTE = "WITHIN INTERVAL '1' MINUTE"


def _match(inside: str, before: str = "PARTITION BY auction ORDER BY at") -> str:
    return f"SELECT * FROM bid MATCH_RECOGNIZE ({before} {inside})"


#: Code -> statements that are refused by it.
WRONG: dict[str, tuple[str, ...]] = {
    "SQL-SYNTAX": (
        "SELECT auction price FROM bid WHER price > 1",
        "SELECT auction, FROM bid",
        "SELECT (auction FROM bid",
        "SELECT auction + FROM bid",
        "SELECT 'a FROM bid",
        "SELECT CAST(at AS TIMESTAMP(\"\")) AS x FROM bid",
        _match(f"PATTERN (A{{1.5}} B) {_MINUTE}"),
        _match(f"PATTERN (A+{{3}} B) {_MINUTE}"),
        _match(f"PATTERN ({{7}} A B) {_MINUTE}"),
        "SELECT * FROM TABLE(TUMBEL(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND))",
        "SELECT auction FROM bid GROUP BY auction EMIT SOMETIMES",
        "CREATE STREAM s (a)",
        "CREATE STREAM s (t TIMESTAMP(3), u TIMESTAMP(3), WATERMARK FOR t AS t, WATERMARK FOR u AS u); SELECT t FROM s",
        "CREATE SINK s (t TIMESTAMP(3), WATERMARK FOR t AS t); SELECT auction FROM bid",
        "CREATE TABLE s (t TIMESTAMP(3), u TIMESTAMP(3), WATERMARK FOR t AS t) WITH (path = '/s.csv', versions = 'u'); SELECT at FROM bid",
        _match("MEASURES A.price PATTERN (A B)"),
        _match("MEASURES RUNNING A.price AS p PATTERN (A B)"),
        _match("ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B)"),
        _match("AFTER MATCH SKIP SOMEWHERE PATTERN (A B)"),
        _match("SUBSET U = (A, B) PATTERN (A B)"),
        _match("PATTERN (A -> !B)"),
        _match("PATTERN (^ A B)"),
        _match("PATTERN (A{ } B)"),
        _match("PATTERN (A {- B -})"),
        _match("PATTERN (PERMUTE(A, B -> C))"),
        _match("PATTERN (A B) WITHIN 5"),
    ),
    "SQL-STATEMENT": (
        "SELEC auction FROM bid",
        "DELETE FROM bid WHERE price = 1",
        "CREATE STREM s (a BIGINT)",
        "CREATE",
        "SELECT auction FROM bid; SELECT bidder FROM bid",
        "CREATE STREAM s (a BIGINT)",
    ),
    "SQL-DEPTH": ("SELECT " + " + ".join(["price"] * 200) + " AS x FROM bid", "SELECT " + "(" * 70 + "price" + ")" * 70 + " FROM bid",),
    "SQL-NAME": ("SELECT auction FROM bids", "SELECT * FROM TABLE(HOP(TABLE b, DESCRIPTOR(at), INTERVAL '1' SECOND, INTERVAL '2' SECOND))"),
    "SQL-EXISTS": ("CREATE STREAM BID (a BIGINT); SELECT a FROM bid", "CREATE STREAM s (a BIGINT, A VARCHAR); SELECT a FROM s"),
    "SQL-COLUMN": (
        "SELECT auctoin FROM bid",
        "SELECT b.price FROM bid",
        "SELECT a FROM auction AS x (a, b, c, d, e, f)",
        'SELECT auction FROM bid WHERE channel = "apple"',
        "SELECT * EXCEPT (prize) FROM bid",
    ),
    "SQL-AMBIGUOUS": (
        "SELECT price FROM bid b JOIN auction a ON b.auction = a.id AND b.at BETWEEN a.at AND a.at + INTERVAL '1' HOUR",
        "SELECT b.price FROM bid b JOIN auction a ON b.auction = a.id AND b.at = a.at WHERE price > 3",
    ),
    "SQL-TYPE": (
        _match(f"PATTERN (A B) {_MINUTE} DEFINE B AS price"),
        _match(f"PATTERN (A B) {_MINUTE} DEFINE B AS A.channel > 1"),
        "SELECT channel + 1 AS x FROM bid",
        "SELECT at > (5) AS x FROM bid",
        "SELECT at IN (1000, 2000) AS x FROM bid",
        "SELECT coalesce(at, 0) AS x FROM bid",
        "SELECT auction, max(at) > 1714521600000 AS x FROM bid GROUP BY auction EMIT AT END",
        "SELECT CASE at WHEN -1000 THEN 1 ELSE 2 END AS x FROM bid",
        "SELECT auction FROM bid WHERE price",
        "SELECT auction FROM bid WHERE price = NULL",
        "SELECT NULL AS x FROM bid",
        "SELECT auction FROM bid WHERE upper(price) = 'A'",
        "SELECT auction FROM bid WHERE price > 1 AND lower(channel) > 3",
        "SELECT CAST(channel AS DATE) AS x FROM bid",
        "SELECT auction FROM bid UNION ALL SELECT id, seller FROM auction",
        "SELECT auction FROM bid WHERE at > '2024-13-01'",
        "SELECT auction FROM bid WHERE at > 1714521600000",
    ),
    "SQL-DECIMAL": ("SELECT CAST(price AS DECIMAL(23, 3)) AS x FROM bid",),
    "SQL-STRUCT": ("SELECT ROW(auction, price) AS x FROM bid", "SELECT bid.price.cents FROM bid b"),
    "SQL-FUNCTION": (
        _match(f"PATTERN (A B) {_MINUTE} DEFINE B AS NEXT(price) > 1"),
        _match(f"PATTERN (A B) {_MINUTE} DEFINE B AS PREV(A.price) > 1"),
        _match(f"PATTERN (A B) {_MINUTE} DEFINE B AS PREV(price, 100) > 1"),
        _match(f"PATTERN (A B) {_MINUTE} DEFINE B AS FIRST(price) > 1"),
        _match(f"PATTERN (A B) {_MINUTE} DEFINE B AS COUNT(A.price) > 1"),
        "SELECT lenght(channel) AS x FROM bid",
        "SELECT round(price, 1, 2) AS x FROM bid",
        "SELECT EXTRACT(QUARTER FROM at) AS x FROM bid",
        "SELECT TRIM(BOTH 'x' FROM channel) AS x FROM bid",
        "SELECT to_timestamp(price) AS x FROM bid",
        "SELECT auction, to_timestamp(max(price)) AS x FROM bid GROUP BY auction EMIT AT END",
    ),
    "SQL-INTERVAL": (
        "SELECT auction, max(at) + 1000 AS x FROM bid GROUP BY auction EMIT AT END",
        "SELECT auction, sum(price) + INTERVAL '1' SECOND AS x FROM bid GROUP BY auction EMIT AT END",
        _match(f"MEASURES A.at + 1000 AS x PATTERN (A B) {_MINUTE}"),
        "SELECT price + INTERVAL '1' SECOND AS x FROM bid",
        "SELECT at + INTERVAL '1' MONTH AS x FROM bid",
        "SELECT INTERVAL '1' SECOND AS x FROM bid",
        "SELECT at + 1000 AS x FROM bid",
    ),
    "SQL-LITERAL": (
        "SELECT substring(channel, price) AS x FROM bid",
        "SELECT auction FROM bid WHERE channel LIKE lower(channel)",
        "SELECT replace(channel, lower(channel), 'x') AS x FROM bid",
        "SELECT round(price / 3, -1) AS x FROM bid",
        "SELECT left(channel, -1) AS x FROM bid",
        "SELECT split_part(channel, '/', -1) AS x FROM bid",
        "SELECT regexp_extract(channel, 'a(b)', 2) AS x FROM bid",
        "SELECT strftime(at, '%p') AS x FROM bid",
        "SELECT date_format(at, 'd MMMM yyyy') AS x FROM bid",
        "SELECT date_format(at, 'yyyy[-MM]') AS x FROM bid",
        "SELECT date_format(at, 'HH ''Uhr') AS x FROM bid",
    ),
    "SQL-PROCTIME": (
        "SELECT PROCTIME() AS x FROM bid",
        "SELECT value FROM bid JOIN side FOR SYSTEM_TIME AS OF PROCTIME() ON auction = key",
    ),
    "SQL-TIME": (
        _match(f"PATTERN (A B) {_MINUTE}", "PARTITION BY auction"),
        _match(f"PATTERN (A B) {_MINUTE}", "ORDER BY price"),
        "SELECT count(*) AS n FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(expires), INTERVAL '9' HOUR)) GROUP BY window_start, window_end",
        "SELECT rowtime FROM bid",
        "SELECT sum(price) OVER (ORDER BY price ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS s FROM bid",
        "SELECT b.price FROM bid b ASOF JOIN auction a ON b.auction = a.id",
    ),
    "SQL-WATERMARK": ("CREATE STREAM s (t TIMESTAMP(3), WATERMARK FOR t AS t + INTERVAL '1' SECOND); SELECT t FROM s",),
    "SQL-WINDOW": (
        "SELECT auction, count(*) AS n FROM bid GROUP BY auction, TUMBLE(at, INTERVAL '10' SECOND)",
        "SELECT count(*) AS n FROM TABLE(HOP(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY window_start, window_end",
        "SELECT count(*) AS n FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), 10)) GROUP BY window_start, window_end",
        "SELECT count(*) AS n FROM TABLE(HOP(TABLE bid, DESCRIPTOR(at), INTERVAL '9' SECOND, INTERVAL '2' SECOND)) "
        "GROUP BY window_start, window_end",
    ),
    "SQL-WINDOW-ROWS": ("SELECT price, window_end FROM TABLE(HOP(TABLE bid, DESCRIPTOR(at), INTERVAL '2' HOUR, INTERVAL '10' HOUR))",),
    "SQL-WINDOW-GROUP": (
        f"SELECT auction, count(*) AS n FROM {_TUMBLE} GROUP BY auction",
        f"SELECT auction, count(*) AS n FROM {_TUMBLE} GROUP BY auction, window_start",
    ),
    "SQL-WINDOW-KEY": (
        "SELECT auction, count(*) AS n FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(at), INTERVAL '5' MINUTE)) "
        "GROUP BY auction, window_start, window_end",
    ),
    "SQL-UNBOUNDED-GROUP": ("SELECT auction, count(*) AS n FROM bid GROUP BY auction", "SELECT max(price) AS most FROM bid"),
    "SQL-CHANGELOG-INPUT": (
        "SELECT count(*) AS n FROM running GROUP BY n EMIT AT END",
        "SELECT auction FROM running WHERE n > 3",
        "SELECT auction, count(*) AS n FROM bid GROUP BY auction HAVING count(*) > 3 EMIT CHANGES",
        "SELECT b.price FROM bid b JOIN running r ON b.auction = r.auction",
    ),
    "SQL-EMIT": (
        f"SELECT count(*) AS n FROM {_TUMBLE} GROUP BY window_start, window_end EMIT CHANGES",
        "SELECT auction FROM bid EMIT AT END",
    ),
    "SQL-GROUP-COLUMN": (
        f"SELECT auction, bidder, count(*) AS n FROM {_TUMBLE} GROUP BY auction, window_start, window_end",
        f"SELECT auction, count(*) AS n FROM {_TUMBLE} GROUP BY 1, window_start, window_end",
    ),
    "SQL-AGGREGATE": (
        "SELECT auction FROM bid WHERE count(*) > 3",
        f"SELECT max(count(*)) AS n FROM {_TUMBLE} GROUP BY auction, window_start, window_end",
    ),
    "SQL-DISTINCT": (f"SELECT sum(DISTINCT price) AS s FROM {_TUMBLE} GROUP BY window_start, window_end",),
    "SQL-FILTER": (f"SELECT first(price) FILTER (WHERE price > 1) AS f FROM {_TUMBLE} GROUP BY window_start, window_end",),
    "SQL-OVER": (
        "SELECT sum(price) OVER (PARTITION BY auction ORDER BY at) AS s FROM bid",
        "SELECT lead(price) OVER (PARTITION BY auction ORDER BY at) AS s FROM bid",
        "SELECT lag(price) OVER (w PARTITION BY price ORDER BY at) AS s FROM bid WINDOW w AS (PARTITION BY auction)",
        "SELECT auction FROM bid WHERE lag(price) OVER (PARTITION BY auction ORDER BY at) > price",
    ),
    "SQL-ROW-NUMBER": (
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rn FROM bid) WHERE rn <= 3",
        "SELECT auction, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price) AS rn FROM bid",
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price) AS rn FROM bid) WHERE rn > 1",
    ),
    "SQL-UNBOUNDED-JOIN": (
        "SELECT b.price FROM bid b JOIN auction a ON b.auction = a.id",
        "SELECT b.price FROM bid b JOIN auction a ON b.auction = a.id AND b.at >= a.at",
    ),
    "SQL-JOIN": (
        "SELECT value FROM bid JOIN side ON price > key",
        "SELECT b.at FROM bid b LEFT JOIN auction a USING (price)",
        f"SELECT b.price FROM {_TUMBLE} b JOIN auction a ON b.auction = a.id",
        "SELECT b.price FROM bid b ASOF JOIN auction a ON b.auction = a.id AND b.at <= a.at",
        "SELECT b.price FROM bid b CROSS JOIN UNNEST(tags, tags) AS u (x, y)",
        "SELECT b.price, x FROM bid b LEFT JOIN UNNEST(b.tags) AS u (x) ON TRUE",
        "SELECT b.price FROM bid b JOIN (SELECT auction FROM bid GROUP BY auction EMIT AT END) g ON b.auction = g.auction",
    ),
    "SQL-SUBQUERY": (
        "SELECT auction FROM bid WHERE price > (SELECT max(price) FROM auction)",
        "SELECT auction FROM bid WHERE auction IN (SELECT id FROM auction)",
    ),
    "SQL-LIMIT": ("SELECT auction FROM bid LIMIT 10",),
    "SQL-ORDER": ("SELECT auction, price FROM bid ORDER BY price DESC", _match(f"PATTERN (A B) {_MINUTE}", "ORDER BY at DESC")),
    "SQL-SET-OP": ("SELECT auction FROM bid UNION SELECT id FROM auction", "SELECT auction FROM bid EXCEPT SELECT id FROM auction"),
    "SQL-FROM": ("SELECT 1 AS x", "SELECT value FROM side", "SELECT * FROM typed"),
    "SQL-SELECT": ("SELECT FROM bid", "SELECT auction, bidder AS auction FROM bid"),
    "SQL-OPTION": (
        "SET parallelism = 'many'; SELECT auction FROM bid",
        """SET parallelism = '{"SQ1": 2, "SQ1": 4}'; SELECT auction FROM bid""",
        "SET state_tll = '1 d'; SELECT auction FROM bid",
        "CREATE STREAM s (a BIGINT) WITH (connector = 'kafka'); SELECT a FROM s",
        "CREATE TABLE t (a BIGINT); SELECT auction FROM bid",
        "CREATE STREAM s (t TIMESTAMP(3), WATERMARK FOR t AS t) WITH (clock = 'yes'); SELECT t FROM s",
        "CREATE STREAM s (a BIGINT) WITH (connector = 'files', path = '/d/a.csv', paths = '/d/b.csv'); SELECT a FROM s",
        "CREATE SINK s WITH (connector = 'stream', path = '/d/out', format = 'parquet'); SELECT auction FROM bid",
        "CREATE SINK s WITH (format = 'parquet', overwrite = true); SELECT auction FROM bid",
        "CREATE SINK s WITH (path = '/d/out', folder = '/e/out'); SELECT auction FROM bid",
    ),
    "SQL-SINK": (
        "INSERT INTO typed SELECT auction, price FROM bid",
        "INSERT INTO bid SELECT auction FROM bid",
        "INSERT INTO out (a, b) SELECT auction FROM bid",
        "CREATE SINK whole (a BIGINT NOT NULL); INSERT INTO whole SELECT CAST(NULL AS BIGINT) AS a FROM bid",
        "CREATE SINK seconds (a TIMESTAMP(0)); INSERT INTO seconds SELECT at FROM bid",
    ),
    "SQL-PATTERN": (
        _match("PATTERN (A B) DEFINE B AS B.price > 1"),
        _match(f"PATTERN (A -> B) {_MINUTE} DEFINE C AS price > 1"),
        _match(f"PATTERN (A -> B) {_MINUTE} DEFINE A AS price > 1, a AS price > 2"),
        _match(f"MEASURES price AS p PATTERN (A -> B) {_MINUTE}"),
        _match(f"MEASURES C.price AS p PATTERN (A -> B) {_MINUTE}"),
        _match(f"MEASURES A.price AS p ALL ROWS PER MATCH PATTERN (A -> B) {_MINUTE}"),
        _match(f"MEASURES FINAL LAST(B.price) - A.price AS d ALL ROWS PER MATCH PATTERN (A -> B) {_MINUTE}"),
        _match(f"MEASURES FINAL CLASSIFIER() AS c ALL ROWS PER MATCH PATTERN (A -> B) {_MINUTE}"),
        _match(f"MEASURES CLASSIFIER() AS c PATTERN (A -> B) {_MINUTE}"),
        _match(f"MEASURES MATCH_NUMBER() AS n PATTERN (A -> B) {_MINUTE}", "ORDER BY at"),
        _match(f"AFTER MATCH SKIP TO C PATTERN (A -> B) {_MINUTE}"),
        _match(f"ALL ROWS PER MATCH TIMED OUT PATTERN (A -> B) {_MINUTE}"),
        _match(f"TIMED OUT ALL MATCHES PATTERN (A -> B) {_MINUTE}"),
        _match(f"MEASURES A.price AS p UNMATCHED ROWS PATTERN (A -> B) {_MINUTE}"),
        _match(f"PATTERN (A -> B) {_MINUTE}", "PARTITION BY upper(channel) ORDER BY at"),
    ),
    "SQL-EXPRESSION": (
        "SELECT at AT TIME ZONE 'Europe/Madrid' AS x FROM bid",
        f"SELECT auction, count(*) AS n FROM {_TUMBLE} GROUP BY ROLLUP (auction, window_start, window_end)",
        "SELECT price & 1 AS x FROM bid",
        "SELECT price FROM bid TABLESAMPLE (10 PERCENT)",
        "SELECT * FROM bid PIVOT (sum(price) FOR channel IN ('a'))",
    ),
    "SQL-QUERY": (
        _match(f"PATTERN (A ->> B) {_MINUTE}"),
        _match(f"PATTERN (A*) {_MINUTE}"),
        "SELECT __bits AS __bits FROM (SELECT price AS __bits FROM bid)",),
}  # fmt: skip


def refusals() -> Iterator[tuple[str, str, SqlError | None]]:
    """(code, statement, what is said; None: it is taken)."""
    session = query_of(GIVEN + "SELECT auction FROM bid", "given", session_of())[1]
    for code, statements in WRONG.items():
        for statement in statements:
            said = None
            try:
                query_of(statement, "wrong", session)
            except SqlError as error:
                said = error
            yield code, statement, said


def errors_page() -> str:
    """The page docs/sql_errors.md."""
    lines = [
        "# What SQL refuses", "",
        "Made by `driver/streaming_sql/wrong.py`, whose statements a test runs. Each reads these:", "", "```sql", GIVEN.strip(), "```",
    ]  # fmt: skip
    found = list(refusals())
    for code, about in CODES.items():
        lines += [
            "",
            f"## {code}",
            "",
            f"{about.why[:1].upper()}{about.why[1:]}. Write instead: {about.instead or 'what the message says'}.",
        ]
        for _, _, error in (each for each in found if each[0] == code):
            lines += ["", "```text", str(error), "```"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(errors_page(), end="")
