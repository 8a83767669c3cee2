"""OVER: trailing windows, LAG, and ROW_NUMBER: a number by event time, or the first rows of a window once its bound is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from cep.errors import QueryError
from cep.model import functions as aggregates
from cep.model.expr import ColumnRef, Expr, lit
from cep.model.functions import Computed, UserFunction
from cep.model.functions import Function as GroupFunction
from cep.model.operators import Deduplicate, KeepLast, Over, TopN
from cep.model.windows import TimeWindow, TrailingWindow
from driver.streaming_sql.building import ROW, Building, free
from driver.streaming_sql.dialect import Emit
from driver.streaming_sql.expressions import bound
from driver.streaming_sql.functions import OVER_ONLY, constant
from driver.streaming_sql.grouping import aggregate_name, group_function
from driver.streaming_sql.relation import BOUNDS, END, RANK, START, Rank, Relation, SqlColumn, SqlSettings, end_time
from driver.streaming_sql.scope import Scope
from driver.streaming_sql.spans import interval_us
from driver.streaming_sql.windows import check_event_time, time_named, window_of_rows

ALL_TIME = TimeWindow(36_500 * 86_400_000_000, 36_500 * 86_400_000_000)
"""A century from 1970 on, which ends at the end of the stream."""
_RANKS = ("rank", "dense_rank")


def is_row_number(node: exp.Expr) -> bool:
    return isinstance(node, exp.Window) and isinstance(node.this, exp.Anonymous) and node.this.name.lower() == "row_number"


def windows_in(node: exp.Expr) -> list[exp.Window]:
    """The OVERs of an expression; subqueries are not looked into."""
    found: list[exp.Window] = []
    rest = [node]
    while rest:
        each = rest.pop(0)
        if isinstance(each, exp.Window):
            found.append(each)
        elif not isinstance(each, exp.Query):
            rest += list(each.iter_expressions())
    return found


@dataclass(frozen=True)
class _Over:
    """One OVER: `window` None: LAG or ROW_NUMBER alone, which no frame binds."""

    node: exp.Window
    by: tuple[str, ...]
    window: TrailingWindow | None
    function: GroupFunction
    wanted: str


#: Parts of a window that may stand behind a name, and what they are called.
_SPECIFIED = {"partition_by": "PARTITION BY", "order": "ORDER BY", "spec": "a frame"}


class Overs:
    """The OVERs of a SELECT."""

    def __init__(self, scope: Scope, building: Building, select: exp.Select, aliases: dict[int, str], settings: SqlSettings) -> None:
        self.scope, self.building, self.aliases, self.settings = scope, building, aliases, settings
        self.named = {each.this.name.casefold(): each for each in select.args.get("windows") or []}
        self.fields: dict[int, str] = {}  # id of an OVER -> its field
        self._computed: list[tuple[str, Expr]] = []

    def spec(self, node: exp.Window) -> exp.Window:
        """With what WINDOW says by name. Raises SqlError."""
        return self._spec(node, ())

    def _spec(self, node: exp.Window, within: tuple[str, ...]) -> exp.Window:
        self.scope.check_parts(node, "this", "partition_by", "order", "spec", "alias", "over")
        alias = node.args.get("alias")
        if alias is None:
            return node
        name = alias.name.casefold()
        if name not in self.named or name in within:
            raise self.scope.error("SQL-OVER", f"there is no WINDOW {alias.name!r}", node, f"WINDOW {alias.name} AS (…) behind FROM")
        found = self._spec(self.named[name], (*within, name))
        own = {key: node.args[key] for key in _SPECIFIED if node.args.get(key)}
        if not own:
            return found
        twice = next((key for key in own if found.args.get(key)), None)
        if twice is not None or found.args.get("spec"):
            said = _SPECIFIED[twice] if twice is not None else "a frame"
            raise self.scope.error("SQL-OVER", f"WINDOW {alias.name!r} has {said} already", node, "all of it in one place")
        merged: exp.Window = node.copy()
        for key in _SPECIFIED:
            merged.set(key, own.get(key) or found.args.get(key))
        merged.set("alias", None)
        return merged

    # --- trailing windows ---

    def add(self, nodes: Sequence[exp.Window]) -> Relation:
        """The relation with a field for each of them. Raises SqlError."""
        relation = self.scope.relation
        if nodes and relation.running:
            raise self.scope.error("SQL-CHANGELOG-INPUT", "OVER reads running answers", nodes[0])
        if nodes and relation.window is not None and not relation.grouped:
            raise self.scope.error(
                "SQL-OVER", "OVER over a window's rows", nodes[0], "OVER over the stream, or the window's GROUP BY in a subquery"
            )
        found = [self._read(node) for node in nodes]
        text, place = self.scope.text, self.scope.place(nodes[0] if nodes else None)
        relation = self.building.with_columns("over_values", relation, self._computed, text, place)
        while found:
            first = found[0]
            window = first.window or next((each.window for each in found if each.by == first.by and each.window), ROW)
            together = [each for each in found if each.by == first.by and each.window in (None, window)]
            found = [each for each in found if each not in together]
            relation = self._operator(relation, first.by, window, together)
        return relation

    def hook(self, node: exp.Expr) -> Expr | None:
        return ColumnRef(self.fields[id(node)]) if id(node) in self.fields else None

    def _operator(self, relation: Relation, by: tuple[str, ...], window: TrailingWindow, overs: list[_Over]) -> Relation:
        functions: dict[str, GroupFunction] = {}
        for each in overs:
            name = free(each.wanted, [*relation.schema.names, *functions])
            functions[name] = each.function
            self.fields[id(each.node)] = name
        at = self.building.add(
            "over",
            lambda name: Over(name, relation.at, window, by, tuple(functions.items()), self.settings.state_ttl),
            self.scope.text,
            self.scope.place(overs[0].node),
        )
        return replace(relation, at=at, schema=self.building.schemas[at])

    def _read(self, node: exp.Window) -> _Over:
        spec = self.spec(node)
        called = node.this
        free_ = called.name.lower() if isinstance(called, exp.Anonymous) and called.name.lower() in OVER_ONLY else ""
        if not free_ and aggregate_name(called, self.scope) is None:
            name = called.name.upper() if isinstance(called, exp.Anonymous) else called.sql()
            instead = "ROW_NUMBER()" if name.lower() in _RANKS else "LAG, ROW_NUMBER or an aggregate"
            raise self.scope.error("SQL-OVER", f"there is no {name} OVER", node, instead)
        self._check_order(spec, node)
        by = tuple(self._column(each, "by") for each in spec.args.get("partition_by") or [])
        wanted = self.aliases.get(id(node), free_ or str(aggregate_name(called, self.scope)).lower())
        if free_:
            return _Over(node, by, None, aggregates.row_number() if free_ == "row_number" else self._lag(called), wanted)
        return _Over(node, by, self._frame(spec, node), self._over_columns(group_function(called, self.scope), node), wanted)

    def _check_order(self, spec: exp.Window, node: exp.Window) -> None:
        order = spec.args.get("order")
        asked = order.expressions if order is not None else []
        if len(asked) != 1 or asked[0].args.get("desc"):
            raise self.scope.error("SQL-OVER", f"OVER goes by {time_named(self.scope)}, ascending, and nothing else", node)
        check_event_time(asked[0].this, self.scope, f"ORDER BY {asked[0].this.sql()}")

    def _frame(self, spec: exp.Window, node: exp.Window) -> TrailingWindow:
        frame = spec.args.get("spec")
        if frame is None:
            raise self.scope.error("SQL-OVER", "OVER without a frame", node)
        self.scope.check_parts(frame, "kind", "start", "start_side", "end", "end_side")
        start, end = frame.args.get("start"), frame.args.get("end")
        if (frame.args.get("start_side") or "PRECEDING") != "PRECEDING" or str(end or "CURRENT ROW") != "CURRENT ROW":
            raise self.scope.error("SQL-OVER", "a frame that does not end with the current row", node)
        try:
            if frame.args.get("kind") == "ROWS" and isinstance(start, exp.Literal) and start.name.isdecimal():
                return TrailingWindow(None, int(start.name) + 1)
            if frame.args.get("kind") == "RANGE" and isinstance(start, exp.Interval):
                return TrailingWindow(interval_us(start, self.scope.text), None)
        except QueryError as error:
            if hasattr(error, "code"):
                raise
            raise self.scope.error("SQL-OVER", error.message, node) from None
        said = f"{frame.args.get('kind')} {start if isinstance(start, str) else start.sql() if start is not None else ''} PRECEDING"
        raise self.scope.error("SQL-OVER", f"a frame {said}", node)

    def _column(self, node: exp.Expr, wanted: str) -> str:
        """The column of the operator that it is, computed before where it is none."""
        expr = bound(node, self.scope)
        return expr.name if isinstance(expr, ColumnRef) else self._field(expr, wanted)

    def _field(self, expr: Expr, wanted: str) -> str:
        name = free(f"over_{wanted}", [*self.scope.relation.schema.names, *(name for name, _ in self._computed)])
        self._computed.append((name, expr))
        return name

    def _over_columns(self, function: GroupFunction, node: exp.Window) -> GroupFunction:
        if isinstance(function, UserFunction):
            raise self.scope.error("SQL-OVER", "a user's aggregate is of a group, not of a row's past", node, "a window with GROUP BY")
        if not isinstance(function, Computed):
            return function
        columns = [each.name if isinstance(each, ColumnRef) else self._field(each, function.name) for each in function.expressions]
        return function.over(tuple(columns))

    def _lag(self, called: exp.Anonymous) -> GroupFunction:
        given = called.expressions
        if not 1 <= len(given) <= 2:
            instead = "LAG(x, 2), and COALESCE around it for a default"
            raise self.scope.error("SQL-FUNCTION", f"LAG takes 1 or 2 arguments, got {len(given)}", called, instead)
        try:
            k = int(constant(bound(given[1], self.scope), "how far LAG looks back", int)) if len(given) > 1 else 1
            return aggregates.lag(self._column(given[0], "lag"), k)
        except QueryError as error:
            if hasattr(error, "code"):
                raise
            raise self.scope.error("SQL-LITERAL", error.message, called) from None

    # --- ROW_NUMBER ---

    def rank(self, node: exp.Window) -> Relation:
        """The relation with a ROW_NUMBER that waits for its bound. Raises SqlError."""
        spec, relation = self.spec(node), self.scope.relation
        if relation.running:
            raise self.scope.error("SQL-CHANGELOG-INPUT", "ROW_NUMBER reads running answers", node)
        if relation.rank is not None:
            raise self.scope.error("SQL-ROW-NUMBER", "two ROW_NUMBERs without a bound", node)
        partition, order = spec.args.get("partition_by") or [], spec.args.get("order")
        if order is None:
            raise self.scope.error("SQL-ROW-NUMBER", "ROW_NUMBER has no ORDER BY", node)
        kinds = {self._bound_kind(each) for each in partition} - {""}
        if kinds & {START, END} and not {START, END} <= kinds:
            raise self.scope.error("SQL-WINDOW-GROUP", "one of window_start and window_end is not in PARTITION BY", node)
        by = tuple(dict.fromkeys(self._column(each, "by") for each in partition if not self._bound_kind(each)))
        ordered = tuple((self._column(each.this, "order"), self._descending(each)) for each in order.expressions)
        text, place = self.scope.text, self.scope.place(node)
        relation = self.building.with_columns("rank_values", relation, self._computed, text, place)
        counted = not kinds and _by_time(ordered, relation)
        return replace(relation, rank=Rank(by, ordered, bool(kinds), spec, counted, self.settings.state_ttl))

    def _bound_kind(self, node: exp.Expr) -> str:
        if self.scope.relation.window is None or not isinstance(node, exp.Column):
            return ""
        kind = self.scope.column(node).kind
        return kind if kind in BOUNDS else ""

    def _descending(self, node: exp.Ordered) -> bool:
        descending = bool(node.args.get("desc"))
        if bool(node.args.get("nulls_first")) is descending:
            said = "first in ascending order, last in descending order"
            raise self.scope.error("SQL-ORDER", f"NULLs come {said}", node, "no NULLS FIRST or LAST")
        return descending


def bound_of(node: exp.Expr, scope: Scope) -> int | None:
    """n where it says that the relation's ROW_NUMBER is at most n. Raises SqlError: it says something else of it."""
    if not any(_is_rank(each, scope) for each in node.walk()):
        return None
    if (found := _at_most(node, scope)) is not None:
        return found
    raise scope.error("SQL-ROW-NUMBER", f"{node.sql()} is no bound of the first rows", node, "rn <= 3, rn < 4 or rn = 1")


def _at_most(node: exp.Expr, scope: Scope) -> int | None:
    """n where it says that the relation's ROW_NUMBER is at most n, and nothing else."""
    rank, number = node.this, node.args.get("expression")
    if not isinstance(number, exp.Literal) or not number.name.isdecimal() or not _is_rank(rank, scope):
        return None
    n = int(number.name)
    most: dict[type[exp.Expr], int] = {exp.LTE: n, exp.LT: n - 1, exp.EQ: n if n == 1 else 0}
    found = most.get(type(node), 0)
    return found if found > 0 else None


def _is_rank(node: exp.Expr, scope: Scope) -> bool:
    if is_row_number(node):
        return True
    if not isinstance(node, exp.Column):
        return False
    found = scope.find(node.name, node.table)
    return len(found) == 1 and found[0].kind == RANK


def ranked(scope: Scope, building: Building, n: int, emit: Emit | None, settings: SqlSettings) -> Relation:
    """The relation with the bound of its ROW_NUMBER. Raises SqlError: it has no final answer."""
    relation = scope.relation
    rank = relation.rank
    assert rank is not None
    place, text = scope.place(rank.node), scope.text
    if not rank.windowed and emit is None:
        return _first(scope, building, rank, n, settings)
    if emit is not None and (rank.windowed or emit.args["mode"] != "END"):
        raise scope.error("SQL-EMIT", "a ROW_NUMBER answers with its window, or at the end", emit, "no EMIT, or EMIT AT END")
    window = window_of_rows(relation) if rank.windowed else ALL_TIME
    if window is None:
        raise scope.error("SQL-ROW-NUMBER", "ROW_NUMBER takes the rows of TUMBLE or HOP, or answers of windows", rank.node)
    last = n == 1 and rank.windowed and rank.by and len(rank.order) == 1 and rank.order[0][1] and _is_time(rank.order[0][0], relation)
    if last:
        at = building.add("last", lambda name: KeepLast(name, relation.at, window, rank.by), text, place)
        return _with_rank(relation, at, building, lit(1), rank.windowed)
    number = free("rank", relation.schema.names)
    at = building.add("top", lambda name: TopN(name, relation.at, window, rank.by, rank.order, n, number), text, place)
    return _with_rank(relation, at, building, ColumnRef(number), rank.windowed)


def _first(scope: Scope, building: Building, rank: Rank, n: int, settings: SqlSettings) -> Relation:
    relation = scope.relation
    if n != 1 or not rank.counted or not rank.by:
        raise scope.error("SQL-ROW-NUMBER", "ROW_NUMBER without a window has no final answer", rank.node)
    at = building.add("first", lambda name: Deduplicate(name, relation.at, rank.by, settings.state_ttl), scope.text, scope.place(rank.node))
    return _with_rank(relation, at, building, lit(1), False, keeps_time=True)


def first_alone(nodes: Sequence[exp.Expr], scope: Scope) -> bool:
    """Do conditions take the first row of each key, `rn = 1`, and say nothing else of the number?"""
    rank = scope.relation.rank
    about = [each.unnest() for each in nodes if any(_is_rank(part, scope) for part in each.walk())]
    if rank is None or not rank.by or not about:
        return False
    return all(_at_most(each, scope) == 1 for each in about)


def _by_time(order: tuple[tuple[str, bool], ...], relation: Relation) -> bool:
    return len(order) == 1 and not order[0][1] and _is_time(order[0][0], relation)


def _is_time(column: str, relation: Relation) -> bool:
    return isinstance(relation.time, ColumnRef) and relation.time.name == column


def _with_rank(relation: Relation, at: str, building: Building, number: Expr, windowed: bool, keeps_time: bool = False) -> Relation:
    columns = tuple(SqlColumn(each.name, number, each.of, "") if each.kind == RANK else each for each in relation.columns)
    time = relation.time if keeps_time else end_time(columns) if windowed else None
    window = relation.window if windowed or keeps_time else None
    grouped = relation.grouped if keeps_time else window is not None
    late = relation.late if windowed or keeps_time else None
    return Relation(at, building.schemas[at], columns, time, window, grouped, late=late)
