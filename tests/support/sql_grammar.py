"""Random statements of the dialect, from a seed: what has one answer in every database, whatever the order of rows of one time.

Left out: overflow, division by zero, texts of floats, and what docs/features/sql.md names as different.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

INT, FLOAT, TEXT, BOOL, TIME = "int", "float", "text", "bool", "time"


@dataclass(frozen=True)
class Source:
    """Rows that a query reads: what stands in FROM, and columns by name with their kinds. `time`: the column of the event time."""

    text: str
    columns: tuple[tuple[str, str], ...]
    time: str = "at"

    def of(self, kind: str) -> list[str]:
        return [name for name, each in self.columns if each == kind]


BID = Source("bid", (("auction", INT), ("bidder", INT), ("price", INT), ("channel", TEXT), ("url", TEXT), ("at", TIME)))
AUCTION = Source("auction", (("id", INT), ("seller", INT), ("category", INT), ("at", TIME), ("expires", TIME)))


class Grammar:
    """Statements, one after the other, from one seed."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)

    def statement(self) -> str:
        kinds: tuple[Callable[[], str], ...] = (
            self.plain, self.plain, self.grouped, self.grouped, self.over, self.ranked, self.interval_join, self.window_join, self.as_of,
            self.at_end, self.union, self.regrouped, self.sessions, self.sized, self.twice, self.chained, self.joined_and_grouped,
            self.united_and_grouped, self.of_aggregates, self.over_twice, self.looked_up, self.unnested, self.deep,
        )  # fmt: skip
        return self.one(kinds)()

    def one(self, of: Sequence[Callable[[], str]]) -> Callable[[], str]:
        return self.chance.choice(of)

    def word(self, *of: str) -> str:
        return self.chance.choice(of)

    def maybe(self, share: float = 0.5) -> bool:
        return self.chance.random() < share

    # --- expressions ---

    def expression(self, kind: str, source: Source, depth: int = 2) -> str:
        if depth == 0 or self.maybe(0.25):
            return self.leaf(kind, source)
        inner = depth - 1
        return {INT: self._int, FLOAT: self._float, TEXT: self._text, BOOL: self._bool, TIME: self._time}[kind](source, inner)

    def leaf(self, kind: str, source: Source) -> str:
        columns = source.of(kind)
        if columns and self.maybe(0.75):
            return self.word(*columns)
        number = self.chance.randint(-20, 99)
        return {
            INT: str(number),
            FLOAT: f"{number}.5",
            TEXT: self.word("'apple'", "'a'", "'goo'", "'ht tp'"),
            BOOL: self.word("TRUE", "FALSE"),
            TIME: f"TIMESTAMP '2024-05-01 00:00:{abs(number) % 60:02}'",
        }[kind]

    def _int(self, source: Source, depth: int) -> str:
        a, b = self.expression(INT, source, depth), self.expression(INT, source, depth)
        return self.word(
            f"({a} + {b})", f"({a} - {b})", f"({a} * {self.chance.randint(-3, 3)})", f"({a} // {self.chance.randint(1, 9)})",
            f"({a} % {self.chance.randint(2, 9)})", f"-({a})", f"abs({a})", f"coalesce({a}, {b})", f"nullif({a}, {b})",
            f"least(coalesce({a}, 5), 7, 3)",
            f"length({self.expression(TEXT, source, depth)})", self._case(INT, source, depth), f"sign({a})",
            f"{self.word('hour', 'minute', 'second')}({self.expression(TIME, source, depth)})", f"mod({a}, 7)",
            f"extract({self.word('day', 'month', 'year', 'isodow', 'doy')} FROM {self.expression(TIME, source, depth)})",
            f"(epoch_us({self.expression(TIME, source, depth)}) - epoch_us({self.leaf(TIME, source)})) // 1000",
            f"CASE {a} WHEN {self.chance.randint(0, 5)} THEN {b} WHEN 1 THEN {a} ELSE 3 END",
            f"greatest(coalesce({a}, 5), 1, coalesce({b}, 2))", f"CAST(floor({self.expression(FLOAT, source, depth)}) AS BIGINT)",
            f"TRY_CAST(CASE WHEN {self.leaf(BOOL, source)} THEN 'x' ELSE CAST({a} AS VARCHAR) END AS BIGINT)",
            f"CAST({self.expression(BOOL, source, depth)} AS INT)", f"if({self.expression(BOOL, source, depth)}, {a}, {b})",
        )  # fmt: skip

    def _float(self, source: Source, depth: int) -> str:
        a, b = self.expression(FLOAT, source, depth), self.expression(INT, source, depth)
        return self.word(
            f"({a} + {b})", f"({a} * 0.5)", f"({b} / 4)", f"CAST({b} AS DOUBLE)", f"floor({a})", f"sqrt(abs({a}))", f"({a} - {a})"
        )

    def _text(self, source: Source, depth: int) -> str:
        a, b = self.expression(TEXT, source, depth), self.expression(TEXT, source, depth)
        return self.word(
            f"upper({a})", f"lower({a})", f"({a} || {b})", f"substring({a}, {self.chance.randint(1, 4)}, {self.chance.randint(0, 4)})",
            f"replace({a}, 'p', '_')", f"coalesce({a}, {b})", self._case(TEXT, source, depth),
            f"split_part({a}, '/', {self.chance.randint(1, 5)})",
            f"{self.word('trim', 'ltrim', 'rtrim')}({a} || ' ')", f"coalesce(regexp_extract({a}, '[a-z]+'), '')",
            f"{self.word('lpad', 'rpad')}(left({a}, 3), 5, '*')", f"concat(coalesce({a}, 'n'), coalesce({b}, ''))",
            f"strftime({self.expression(TIME, source, depth)}, '{self.word('%H:%M:%S', '%Y-%m-%d', '%d.%m. %H')}')",
            f"substring({a} FROM {self.chance.randint(1, 4)} FOR 2)", f"CAST({self.expression(BOOL, source, depth)} AS VARCHAR)",
            f"CAST({self.expression(INT, source, depth)} AS VARCHAR)", f"reverse({a})", f"left({a}, {self.chance.randint(0, 5)})",
        )  # fmt: skip

    def _bool(self, source: Source, depth: int) -> str:
        a, b = self.expression(BOOL, source, depth), self.expression(BOOL, source, depth)
        kind = self.word(INT, INT, TEXT, TIME)
        x, y = self.expression(kind, source, depth), self.expression(kind, source, depth)
        i = self.expression(INT, source, depth)
        return self.word(
            f"({x} {self.word('=', '<>', '<', '<=', '>', '>=')} {y})", f"({a} AND {b})", f"({a} OR {b})", f"(NOT {a})", f"({x} IS NULL)",
            f"({x} IS NOT NULL)",
            f"({i} BETWEEN {self.chance.randint(-5, 30)} AND {self.chance.randint(30, 90)})", f"({i} IN (1, 2, 3, 50))",
            f"({self.expression(TEXT, source, depth)} LIKE {self.word(chr(39) + 'a%' + chr(39), chr(39) + '%o_' + chr(39))})",
            f"{self.word('starts_with', 'ends_with', 'contains')}({self.expression(TEXT, source, depth)}, {self.leaf(TEXT, source)})",
            f"({self.expression(TEXT, source, depth)} {self.word('', 'NOT ')}IN ('apple', 'goo', 'a'))",
            f"({self.expression(TEXT, source, depth)} ILIKE '%P%')", f"({self.expression(TEXT, source, depth)} NOT LIKE '%a%')",
            f"regexp_matches({self.expression(TEXT, source, depth)}, 'o+g|/1')",
            f"({x} {self.word('', 'NOT ')}BETWEEN {y} AND {x})", f"({a} IS NOT FALSE)",
            f"({x} IS DISTINCT FROM {y})", f"({a} IS TRUE)", f"({i} NOT IN (4, 5))",
        )  # fmt: skip

    def _time(self, source: Source, depth: int) -> str:
        a = self.expression(TIME, source, depth)
        return self.word(f"({a} + INTERVAL '{self.chance.randint(1, 90)}' SECOND)", f"date_trunc('{self.word('minute', 'hour')}', {a})", a)

    def _case(self, kind: str, source: Source, depth: int) -> str:
        test, value, other = self.expression(BOOL, source, depth), self.expression(kind, source, depth), self.leaf(kind, source)
        return f"CASE WHEN {test} THEN {value}{self.word('', f' ELSE {other}')} END"

    def fields(self, source: Source, least: int = 1) -> str:
        kinds = [self.word(INT, INT, TEXT, BOOL, FLOAT, TIME) for _ in range(self.chance.randint(least, 4))]
        return ", ".join(f"{self.expression(kind, source)} AS c{i}" for i, kind in enumerate(kinds))

    def where(self, source: Source, share: float = 0.5) -> str:
        return f" WHERE {self.expression(BOOL, source)}" if self.maybe(share) else ""

    # --- statements ---

    def plain(self) -> str:
        source = self.word_of(BID, AUCTION)
        if self.maybe(0.3):
            kept = ", ".join(name for name, _ in source.columns)
            source = Source(f"(SELECT {kept} FROM {source.text}{self.where(source)}) AS q", source.columns)
        distinct = self.word("", "", "", "DISTINCT ")
        return f"SELECT {distinct}{self.fields(source)} FROM {source.text}{self.where(source)}"

    def word_of(self, *of: Source) -> Source:
        return self.chance.choice(of)

    def window(self, source: Source) -> str:
        size = self.chance.choice((5, 10, 15))
        hop = size // 5 if self.maybe() else 5
        return self.word(
            f"TABLE(TUMBLE(TABLE {source.text}, DESCRIPTOR(at), INTERVAL '{size}' SECOND))",
            f"TABLE(TUMBLE(TABLE {source.text}, DESCRIPTOR(at), INTERVAL '{size}' SECOND, OFFSET => INTERVAL '2' SECOND))",
            f"TABLE(HOP(TABLE {source.text}, DESCRIPTOR(at), INTERVAL '{hop}' SECOND, INTERVAL '{size}' SECOND))",
            f"TABLE(CUMULATE(TABLE {source.text}, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '{size}' SECOND))",
        )

    def aggregate(self, source: Source) -> str:
        a = self.expression(INT, source, 1)
        filtered = f" FILTER (WHERE {self.expression(BOOL, source, 1)})" if self.maybe(0.3) else ""
        return self.word(
            "count(*)", f"count({a})", f"sum({a})", f"min({a})", f"max({a})", f"avg({a})", f"count(DISTINCT {a})",
            f"max({self.expression(TEXT, source, 1)})", f"min({self.expression(TIME, source, 1)})",
            f"{self.word('max_by', 'min_by')}(coalesce({self.word(*source.of(INT)[:2])}, 0), at)",
            f"sum({self.expression(FLOAT, source, 1)})",
            f"{self.word('stddev_pop', 'stddev_samp')}({source.of(INT)[-1]})", f"count(DISTINCT {self.expression(TEXT, source, 1)})",
        ) + filtered  # fmt: skip

    def aggregates(self, source: Source) -> list[str]:
        return [self.aggregate(source) for _ in range(self.chance.randint(1, 3))]

    def keys(self, source: Source) -> list[str]:
        return [
            self.word(self.word(*source.of(INT)), self.expression(self.word(INT, TEXT), source, 1))
            for _ in range(self.chance.randint(0, 2))
        ]

    def grouped(self) -> str:
        source = self.word_of(BID, AUCTION)
        keys = [key for key in self.keys(source) if any(name in key for name, _ in source.columns)]
        fields = [f"{key} AS k{i}" for i, key in enumerate(keys)] + [f"{each} AS a{i}" for i, each in enumerate(self.aggregates(source))]
        if self.maybe():
            fields.append(self.word("window_start", "window_end"))
        having = f" HAVING count(*) > {self.chance.randint(0, 2)}" if self.maybe(0.3) else ""
        by = ", ".join([*keys, "window_start", "window_end"])
        return f"SELECT {', '.join(fields)} FROM {self.window(source)}{self.where(source, 0.4)} GROUP BY {by}{having}"

    def regrouped(self) -> str:
        by = "auction, window_start, window_end"
        inner = f"SELECT {by}, count(*) AS n, sum(price) AS s FROM {self.window(BID)} GROUP BY {by}"
        outer = self.word("max(n) AS m, count(*) AS c", "sum(s) AS t", "max(n) AS m, window_end")
        return f"SELECT {outer} FROM ({inner}) GROUP BY window_start, window_end"

    def of_aggregates(self) -> str:
        """Expressions over aggregates, in SELECT and HAVING."""
        key = self.expression(self.word(INT, TEXT), BID, 1)
        key = key if any(name in key for name, _ in BID.columns) else "channel"
        a, b, c = (
            self.word("sum(price)", "count(price)", "min(price)", "max(bidder)", "count(*)", f"sum({self.leaf(INT, BID)})") for _ in "abc"
        )
        fields = self.chance.choice((
            (f"{a} + {b}", c), (f"CASE WHEN {a} > {b} THEN {c} END",), (f"coalesce({a}, 0) * 2 - {b}", key), (f"{a} / 4", f"abs({b})"),
            (f"{a} IS NULL", f"{b} % 7"), (f"max({key})", f"{a} - {a}"), (f"coalesce(CAST({key} AS VARCHAR), '') || 'x'", a),
        ))  # fmt: skip
        having = self.word("", f" HAVING {a} > {self.chance.randint(0, 60)}", f" HAVING {b} IS NOT NULL AND ({c} <> 3 OR {a} < 9)")
        named = ", ".join(f"{field} AS f{i}" for i, field in enumerate(fields))
        return f"SELECT {named} FROM {self.window(BID)} GROUP BY {key}, window_start, window_end{having}"

    def over_twice(self) -> str:
        """Two frames of one partition, and what is computed of them; or of two."""
        keys = [self.word("auction", "bidder", "channel") for _ in range(2)]
        spans = [self.chance.randint(1, 25) for _ in range(2)]
        one = f"sum(price) OVER (PARTITION BY {keys[0]} ORDER BY at RANGE BETWEEN INTERVAL '{spans[0]}' SECOND PRECEDING AND CURRENT ROW)"
        two = f"count(price) OVER (PARTITION BY {keys[1]} ORDER BY at ROWS BETWEEN {spans[1]} PRECEDING AND CURRENT ROW)"
        field = self.word(
            f"{one} - {two}",
            f"coalesce({one}, 0) + {two}",
            f"CASE WHEN {two} > 3 THEN {one} END",
            f"price - lag(price) OVER (PARTITION BY {keys[0]} ORDER BY at)",
        )
        return f"SELECT auction, {field} AS f, {self.expression(INT, BID)} AS g FROM bid{self.where(BID, 0.4)}"

    def looked_up(self) -> str:
        how, key = self.word("", "LEFT "), self.word("price", "b.auction * 2", "b.bidder", "length(url) % 12")
        also = self.word("", " WHERE b.price > 10", " WHERE s.value <> 'v4'", " WHERE s.value IS NULL OR b.auction = 1")
        return f"SELECT b.auction, b.price, s.value || '!' AS v, s.key FROM bid b {how}JOIN side s ON {key} = s.key{also}"

    def unnested(self) -> str:
        kept = self.word("", " WHERE length(x) > 2", " WHERE x <> ''")
        return (
            f"SELECT auction, x, upper(x) AS y FROM bid CROSS JOIN UNNEST(string_split(url, '{self.word('/', '_', 't')}')) AS u (x){kept}"
        )

    def deep(self) -> str:
        """A SELECT in a SELECT in a SELECT, of which each has other names."""
        fields = ", ".join(f"{self.expression(kind, BID)} AS {name}" for name, kind in (("i", INT), ("Txt", TEXT), ("b2", BOOL)))
        first = Source("q1", (("i", INT), ("txt", TEXT), ("b2", BOOL), ("at", TIME)))
        second = Source("q2", (("J", INT), ("t2", TEXT), ("at", TIME)))
        inner = f"SELECT {fields}, at FROM bid{self.where(BID)}"
        middle = f"SELECT {self.expression(INT, first)} AS j, {self.expression(TEXT, first)} AS T2, at FROM ({inner}) q1{self.where(first)}"
        table = f"TABLE(TUMBLE(({middle}), DESCRIPTOR(at), INTERVAL '10' SECOND))"
        if self.maybe(0.3):
            return f"SELECT {self.aggregate(second)} AS a, window_end FROM {table} q2 GROUP BY window_start, window_end"
        return f"SELECT {self.fields(second)} FROM ({middle}) q2{self.where(second)}"

    def sessions(self) -> str:
        key, gap = self.word("auction", "bidder", "channel"), self.chance.randint(1, 9)
        fields = ", ".join(f"{each} AS a{i}" for i, each in enumerate(self.aggregates(BID)))
        table = f"TABLE(SESSION(TABLE bid PARTITION BY {key}, DESCRIPTOR(at), INTERVAL '{gap}' SECOND))"
        return f"SELECT {key} AS k, window_start, {fields} FROM {table} GROUP BY {key}, window_start, window_end"

    def sized(self) -> str:
        key, rows = self.word("auction", "bidder"), self.chance.randint(2, 6)
        fields = ", ".join(f"{each} AS a{i}" for i, each in enumerate(self.aggregates(BID)))
        table = f"TABLE(SIZE(TABLE bid PARTITION BY {key}, {rows}))"
        return f"SELECT {key} AS k, {fields} FROM {table} GROUP BY {key}, window_start, window_end"

    def twice(self) -> str:
        """A WITH that is read twice, and one over it."""
        kept = f"SELECT auction, bidder, price, channel, url, at FROM bid{self.where(BID)}"
        picked = f"SELECT * FROM kept{self.where(BID)}"
        sides = [self.expression(INT, BID) for _ in range(2)]
        union = f"SELECT {sides[0]} AS a, at FROM kept{self.where(BID)} UNION ALL SELECT {sides[1]} AS a, at FROM picked"
        return f"WITH kept AS ({kept}), picked AS ({picked}) {union}"

    def chained(self) -> str:
        """Three streams, two joins: the time of the first is the bid's."""
        how, spans = self.word("", "LEFT ", "FULL "), [self.chance.randint(1, 15) for _ in range(3)]
        first = f"b.at BETWEEN a.at AND a.at + INTERVAL '{spans[0]}' SECOND"
        then = f"p.at BETWEEN b.at - INTERVAL '{spans[1]}' SECOND AND b.at + INTERVAL '{spans[2]}' SECOND"
        joins = f"JOIN bid b ON a.id = b.auction AND {first} {how}JOIN person p ON {self.word('a.seller', 'b.bidder')} = p.id AND {then}"
        return f"SELECT a.id, b.price, p.name, p.state || 'x' AS s FROM auction a {joins}"

    def joined_and_grouped(self) -> str:
        size = self.chance.choice((5, 20))
        on = f"a.id = b.auction AND b.at BETWEEN a.at AND a.at + INTERVAL '{self.chance.randint(1, 20)}' SECOND"
        joined = f"SELECT a.seller, a.category, b.price, b.at FROM auction a JOIN bid b ON {on}"
        table = f"TABLE(TUMBLE(({joined}), DESCRIPTOR(at), INTERVAL '{size}' SECOND))"
        key, called = self.word("seller", "category"), self.word("sum(price)", "count(price)", "max(price)", "count(DISTINCT price)")
        return f"SELECT {key} AS k, {called} AS a, count(*) AS n FROM {table} GROUP BY {key}, window_start, window_end"

    def united_and_grouped(self) -> str:
        parts = " UNION ALL ".join(
            f"SELECT {self.word(*source.of(INT))} AS k, {self.expression(INT, source, 1)} AS v, at FROM {source.text}{self.where(source)}"
            for source in (BID, AUCTION)
        )
        table = f"TABLE(TUMBLE(({parts}), DESCRIPTOR(at), INTERVAL '{self.chance.choice((5, 10))}' SECOND))"
        having = self.word("", " HAVING sum(v) > 10", " HAVING count(*) > 1 AND min(v) IS NOT NULL")
        return f"SELECT k, sum(v) AS s, min(v) AS m, count(*) AS n, window_end FROM {table} GROUP BY k, window_start, window_end{having}"

    def at_end(self) -> str:
        source = self.word_of(BID, AUCTION)
        key = self.word(*source.of(INT))
        fields = ", ".join(f"{each} AS a{i}" for i, each in enumerate(self.aggregates(source)))
        return f"SELECT {key} AS k, {fields} FROM {source.text}{self.where(source)} GROUP BY {key} EMIT AT END"

    def over(self) -> str:
        key = self.word("auction", "bidder", "channel")
        frame = self.word(
            f"ROWS BETWEEN {self.chance.randint(0, 4)} PRECEDING AND CURRENT ROW",
            f"RANGE BETWEEN INTERVAL '{self.chance.randint(1, 20)}' SECOND PRECEDING AND CURRENT ROW",
        )
        called = self.word("count(*)", "sum(price)", "max(price)", f"min({self.expression(INT, BID, 1)})", "avg(price)")
        lag = f", lag(price, {self.chance.randint(1, 3)}) OVER (PARTITION BY {key} ORDER BY at) AS l" if self.maybe() else ""
        return f"SELECT auction, {called} OVER (PARTITION BY {key} ORDER BY at {frame}) AS o{lag} FROM bid{self.where(BID, 0.3)}"

    def ranked(self) -> str:
        key = self.word("auction", "bidder", "price % 3")
        order = f"{self.word('price', 'price % 10', 'channel')}{self.word('', ' DESC')}, at{self.word('', ' DESC')}"
        n = self.chance.randint(1, 3)
        number = f"ROW_NUMBER() OVER (PARTITION BY {{}}{key} ORDER BY {order})"
        if self.maybe(0.3):
            return f"SELECT auction, price, rn FROM (SELECT *, {number.format('')} AS rn FROM bid) WHERE rn <= {n} EMIT AT END"
        windowed = f"TABLE({self.word('TUMBLE', 'TUMBLE')}(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND))"
        return f"SELECT auction, price, at FROM {windowed} QUALIFY {number.format('window_start, window_end, ')} <= {n}"

    def interval_join(self) -> str:
        how = self.word("", "LEFT ", "RIGHT ", "FULL ")
        low, high = self.chance.randint(0, 6), self.chance.randint(0, 12)
        bound = f"b.at BETWEEN a.at - INTERVAL '{low}' SECOND AND a.at + INTERVAL '{high}' SECOND"
        also = self.word("", " AND b.price > a.seller", " AND b.price > 30", " AND a.category < 3")
        where = self.word("", " WHERE b.price > 20", " WHERE a.category <> 2") if how == "" else ""
        return f"SELECT a.id, a.category, b.auction, b.price FROM auction a {how}JOIN bid b ON a.id = b.auction AND {bound}{also}{where}"

    def window_join(self) -> str:
        how = self.word("", "LEFT ", "FULL ")
        name = self.word("TUMBLE", "HOP")
        spans = "INTERVAL '10' SECOND" if name == "TUMBLE" else "INTERVAL '5' SECOND, INTERVAL '10' SECOND"
        sides = [f"(SELECT * FROM TABLE({name}(TABLE {each}, DESCRIPTOR(at), {spans})))" for each in ("bid", "auction")]
        also = self.word("", " AND l.price > r.seller", " AND r.category > 1")
        on = f"l.auction = r.id AND l.window_start = r.window_start AND l.window_end = r.window_end{also}"
        return f"SELECT l.auction, l.price, r.id, r.seller FROM {sides[0]} l {how}JOIN {sides[1]} r ON {on}"

    def as_of(self) -> str:
        how = self.word("", "LEFT ")
        key = self.word("auction", "bidder")
        where = self.word("", " WHERE a.category < 3", " WHERE b.price > a.seller * 10 AND b.auction <> 2", " WHERE a.seller = b.bidder")
        return f"SELECT b.auction, b.price, a.seller FROM bid b ASOF {how}JOIN auction a ON b.{key} = a.id AND b.at >= a.at{where}"

    def union(self) -> str:
        parts = [
            f"SELECT {self.expression(INT, source)} AS a, {self.expression(TEXT, source)} AS b FROM {source.text}{self.where(source)}"
            for source in (self.word_of(BID, AUCTION) for _ in range(self.chance.randint(2, 3)))
        ]
        return " UNION ALL ".join(parts)
