"""Our SQL as DuckDB's: windows, as-of joins and marks of streams are rewritten in the tree, and what both have stays as it is.

- Streams are tables; `__n` is the place of a row in its stream, by which the order of rows of one time is said where it matters.
- A window's table function is a subquery with window_start, window_end and window_time; HOP and CUMULATE repeat rows by range; sessions are
  numbered by gaps.
- EMIT is left out: DuckDB answers at the end.
- Functions of other names, and divisions: `//` of both truncates.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from driver.streaming_sql.dialect import WindowTable
from driver.streaming_sql.spans import interval_us
from driver.streaming_sql.statements import CreateView, Insert, Select, statements

_FUNCTIONS = {
    "first": "first",
    "last": "last",
    "approx_quantile": "quantile_disc",
    "starts_with": "starts_with",
    "split_part": "split_part",
    "epoch_s": "epoch_s_",
    "isodow": "isodow",
    "day_of_year": "dayofyear",
    "list_length": "len",
    "cardinality": "len",
    "array_length": "len",
    "array_join": "array_to_string",
    "power": "pow",
    "char_length": "length",
    "split_index": "split_index_",
    "octet_length": "strlen",
    "regexp_like": "regexp_matches",
    "iif": "if",
}
#: What DuckDB lacks.
MACROS = """
CREATE MACRO split_index_(x, s, i) AS string_split(x, s)[i + 1];
CREATE MACRO epoch_s_(t) AS epoch_us(t) // 1000000;
"""


def duckdb_sql(text: str) -> str:
    """The last query of a text, its views as WITH."""
    views: list[str] = []
    query: exp.Expr | None = None
    for statement in statements(text):
        if isinstance(statement, CreateView):
            views.append(f'"{statement.name.name}" AS ({_written(statement.query)})')
        elif isinstance(statement, Select | Insert):
            query = statement.query
    assert query is not None
    written = _written(query)
    if not views:
        return written
    joined = ", ".join(views)
    return f"WITH {joined}, {written.removeprefix('WITH ')}" if written.startswith("WITH ") else f"WITH {joined} {written}"


def _written(query: exp.Expr) -> str:
    return _rewritten(query.copy()).sql(dialect=DuckDB)


def _rewritten(query: exp.Expr) -> exp.Expr:
    return query.transform(_node)


def _node(node: exp.Expr) -> exp.Expr:
    match node:
        case WindowTable():
            return _window(node)
        case exp.Select() if node.args.get("emit") is not None:
            node.set("emit", None)
            return node
        case exp.Join() if isinstance(node.this, exp.Table) and node.this.args.get("version") is not None:
            return _as_of(node)
        case exp.Anonymous():
            return _function(node)
        case exp.Ordered():
            node.set("nulls_first", not node.args.get("desc"))
            return node
        case exp.IntDiv():
            return exp.Anonymous(this="trunc_div", expressions=[node.this, node.expression])
        case exp.Bracket():
            return exp.Anonymous(this="list_extract", expressions=[node.this, node.expressions[0]])
        case exp.Unnest():
            return node
        case exp.Cast() if node.to.this in (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ):
            node.to.set("expressions", None)
            return node
    return node


def _function(node: exp.Anonymous) -> exp.Expr:
    name = node.name.lower()
    node.set("this", _FUNCTIONS.get(name, name))
    return node


def _as_of(node: exp.Join) -> exp.Expr:
    """FOR SYSTEM_TIME AS OF t of a stream is an as-of join with the event time of the right, which every stream of the tests calls `at`."""
    version = node.this.args["version"].expression
    right = exp.column("at", table=node.this.alias_or_name)
    node.this.set("version", None)
    if node.this.name not in TABLES:
        node.set("method", "ASOF")
        node.set("on", exp.and_(node.args["on"], exp.GTE(this=version, expression=right)))
    return node


#: Names that are static tables.
TABLES = ("side",)


def _window(node: WindowTable) -> exp.Expr:
    name, inner = node.args["name"], node.this
    source = inner.sql(dialect=DuckDB) if isinstance(inner, exp.Table) else f"({_rewritten(inner.this.copy()).sql(dialect=DuckDB)})"
    time = node.args["time"].name if node.args.get("time") is not None else "at"
    spans = [interval_us(each, "") for each in node.expressions if isinstance(each, exp.Interval)]
    named = {each.this.name: each.expression for each in node.expressions if isinstance(each, exp.Kwarg)}
    offset = interval_us(named["offset"], "") if "offset" in named else 0
    keys = [each.name for each in node.args.get("partition_by") or []]
    us = f'epoch_us("{time}")'
    made = {"TUMBLE": _tumble, "HOP": _hop, "CUMULATE": _cumulate, "SESSION": _session, "SIZE": _size}[name](
        source, us, spans, offset, keys, node
    )
    alias = node.alias or (inner.alias_or_name if isinstance(inner, exp.Table) else "w")
    bounds = "make_timestamp(s) AS window_start, make_timestamp(e) AS window_end, make_timestamp(e - 1) AS window_time"
    query = f"SELECT * EXCLUDE (s, e), {bounds} FROM ({made})"
    parsed = exp.maybe_parse(query, dialect=DuckDB)
    return exp.Subquery(this=parsed, alias=exp.TableAlias(this=exp.to_identifier(alias)))


def _floor(of: str, size: int) -> str:
    """The last multiple that is not above; `%` truncates."""
    return f"({of} - (({of} % {size}) + {size}) % {size})"


def _tumble(source: str, us: str, spans: list[int], offset: int, keys: list[str], node: Any) -> str:
    (size,) = spans
    start = f"{_floor(f'({us} - {offset})', size)} + {offset}"
    return f"SELECT *, {start} AS s, {start} + {size} AS e FROM {source}"


def _hop(source: str, us: str, spans: list[int], offset: int, keys: list[str], node: Any) -> str:
    slide, size = spans
    last = f"{_floor(f'({us} - {offset})', slide)} + {offset}"
    starts = f"range({last} - {size // slide * slide}, {last} + 1, {slide})"
    started = f"SELECT *, unnest({starts}) AS s FROM (SELECT *, {us} AS u FROM {source})"
    return f"SELECT * EXCLUDE (u), s + {size} AS e FROM ({started}) WHERE u < s + {size}"


def _cumulate(source: str, us: str, spans: list[int], offset: int, keys: list[str], node: Any) -> str:
    step, size = spans
    start = f"{_floor(f'({us} - {offset})', size)} + {offset}"
    return (
        f"SELECT * EXCLUDE (u) FROM (SELECT *, unnest(range(s + {step}, s + {size} + 1, {step})) AS e FROM "
        f"(SELECT *, {start} AS s, {us} AS u FROM {source})) WHERE u < e"
    )


def _session(source: str, us: str, spans: list[int], offset: int, keys: list[str], node: Any) -> str:
    (gap,) = spans
    by = f"PARTITION BY {', '.join(keys)} " if keys else ""
    anew = f"SELECT *, {us} AS u, coalesce({us} - lag({us}) OVER ({by}ORDER BY {us}) > {gap}, TRUE) AS anew FROM {source}"
    numbered = f"SELECT *, sum(anew::INT) OVER ({by}ORDER BY u ROWS UNBOUNDED PRECEDING) AS number FROM ({anew})"
    within = f"OVER (PARTITION BY {', '.join([*keys, 'number'])})"
    return f"SELECT * EXCLUDE (u, anew, number), min(u) {within} AS s, max(u) {within} + {gap} AS e FROM ({numbered})"


def _size(source: str, us: str, spans: list[int], offset: int, keys: list[str], node: Any) -> str:
    rows = int(node.expressions[0].name)
    by = f"PARTITION BY {', '.join(keys)} " if keys else ""
    numbered = f"SELECT *, {us} AS u, (row_number() OVER ({by}ORDER BY {us}, __n) - 1) // {rows} AS number FROM {source}"
    within = f"OVER (PARTITION BY {', '.join([*keys, 'number'])})"
    full = f"SELECT *, min(u) {within} AS s, max(u) {within} AS e, count(*) {within} AS rows FROM ({numbered})"
    return f"SELECT * EXCLUDE (u, number, rows) FROM ({full}) WHERE rows = {rows}"


class Database:
    """DuckDB with the tables of streams."""

    def __init__(self, tables: dict[str, pa.Table]) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute(MACROS)
        self.connection.execute("CREATE MACRO trunc_div(a, b) AS trunc(a / b)::BIGINT")
        for name, table in tables.items():
            self.connection.register("given", table)
            self.connection.execute(f"CREATE TABLE {name} AS SELECT *, row_number() OVER () AS __n FROM given")
            self.connection.unregister("given")

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """The answers of the last query of a text. The number of a row is left out."""
        found = self.connection.sql(duckdb_sql(text))
        kept = [i for i, name in enumerate(found.columns) if name != "__n"]
        return [tuple(row[i] for i in kept) for row in found.fetchall()]
