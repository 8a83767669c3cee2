"""Joins: which of the engine's one is, by what its condition says of windows and of time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from cep.model.expr import ColumnRef, Expr
from cep.model.operators import AsOfJoin, Filter, IntervalJoin, Join, Lookup
from cep.model.schema import Schema
from driver.streaming_sql.building import Building
from driver.streaming_sql.catalog import CatalogTable
from driver.streaming_sql.expressions import all_of, bound
from driver.streaming_sql.relation import BOUNDS, END, START, TIME, Relation, SqlSettings, before, end_time, plain_columns, renamed, same
from driver.streaming_sql.scope import Scope
from driver.streaming_sql.spans import interval_us
from driver.streaming_sql.windows import is_event_time, window_of_rows

Node = exp.Expr


@dataclass
class Matched:
    """What a condition says.

    Args:
        pairs: equal expressions, of the left and of the right.
        bounds: kinds of the windows' bounds that are equal, and where that is said.
        lower, upper: of the right event time less the left one, µs; `times` is where that is said.
        rest: what else has to be true.
    """

    pairs: list[tuple[Expr, Expr, Node]] = field(default_factory=list)
    bounds: dict[str, Node] = field(default_factory=dict)
    lower: int | None = None
    upper: int | None = None
    times: list[Node] = field(default_factory=list)
    rest: list[Node] = field(default_factory=list)


@dataclass(frozen=True)
class Sides:
    """The two of a join; `node` is where it stands."""

    left: Scope
    right: Scope
    both: Scope
    how: str
    node: Node

    def side_of(self, node: Node) -> str:
        """left, right, both, or none of them."""
        found = {self._of(each) for each in node.find_all(exp.Column)}
        return "both" if len(found) > 1 else next(iter(found), "none")

    def _of(self, column: exp.Column) -> str:
        at_left, at_right = self.left.find(column.name, column.table), self.right.find(column.name, column.table)
        if at_left and at_right:
            self.both.column(column)  # ambiguous
        if not at_left and not at_right:
            if column.name.casefold() == "rowtime" and column.table:
                aliases = {each.of for each in self.left.relation.columns}
                return "left" if column.table.casefold() in aliases else "right"
            self.both.column(column)
        return "left" if at_left else "right"

    def scope(self, side: str) -> Scope:
        return self.left if side == "left" else self.right


# --- what the condition says ---


def matched(conjuncts: Iterable[Node], sides: Sides, timed: bool = True) -> Matched:
    """Raises SqlError. `timed`: bounds on the event times are the join's."""
    found = Matched()
    for node in conjuncts:
        each = node.unnest()
        if isinstance(each, exp.EQ) and _as_pair(each, sides, found):
            continue
        if timed and _as_time_bound(each, sides, found):
            found.times.append(each)
            continue
        found.rest.append(each)
    return found


def _as_pair(node: exp.EQ, sides: Sides, found: Matched) -> bool:
    one, other = sides.side_of(node.this), sides.side_of(node.expression)
    if {one, other} != {"left", "right"}:
        return False
    left, right = (node.this, node.expression) if one == "left" else (node.expression, node.this)
    kinds = _kind(left, sides.left), _kind(right, sides.right)
    if kinds[0] and kinds[0] == kinds[1]:
        found.bounds[kinds[0]] = node
        return True
    if _time_of(left, sides) and _time_of(right, sides):
        return False
    found.pairs.append((bound(left, sides.left), bound(right, sides.right), node))
    return True


def _kind(node: Node, scope: Scope) -> str:
    if scope.relation.window is None or not isinstance(node, exp.Column):
        return ""
    return next((each.kind for each in scope.find(node.name, node.table) if each.kind in BOUNDS), "")


def _time_of(node: Node, sides: Sides) -> tuple[str, int] | None:
    """(side, µs) where it is a side's event time, and so much."""
    shift = 0
    node = node.unnest()
    if isinstance(node, exp.Add) and isinstance(node.this, exp.Interval):
        shift, node = interval_us(node.this, sides.both.text), node.expression.unnest()
    while isinstance(node, exp.Add | exp.Sub) and isinstance(node.expression, exp.Interval):
        us = interval_us(node.expression, sides.both.text)
        shift += us if isinstance(node, exp.Add) else -us
        node = node.this.unnest()
    if not isinstance(node, exp.Column):
        return None
    side = sides.side_of(node)
    scope = sides.scope(side)
    if is_event_time(node, scope):
        return side, shift
    found = scope.find(node.name, node.table)
    end = found[0].expr if len(found) == 1 and scope.relation.grouped else None
    return (side, shift + 1) if end is not None and same(before(end), scope.relation.time) else None


#: What to write in place of a condition that an outer join does not take.
_BEFORE = "a condition on the right alone in a subquery there; in WHERE it would drop rows without a match"
_FLIPPED: dict[type[Node], type[Node]] = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ}


def _as_time_bound(node: Node, sides: Sides, found: Matched) -> bool:
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        low = exp.GTE(this=node.this, expression=node.args["low"])
        high = exp.LTE(this=node.this, expression=node.args["high"])
        taken = [_as_time_bound(each, sides, found) for each in (low, high)]
        found.rest += [each for each, is_taken in zip((low, high), taken, strict=True) if not is_taken and any(taken)]
        return any(taken)
    if type(node) not in _FLIPPED:
        return False
    one, other = _time_of(node.this, sides), _time_of(node.expression, sides)
    if one is None or other is None or one[0] == other[0]:
        return False
    kind = type(node)
    if one[0] == "left":
        one, other, kind = other, one, _FLIPPED[kind]
    difference = other[1] - one[1]  # right.t `kind` left.t + difference
    if kind in (exp.GT, exp.GTE, exp.EQ):
        least = difference + (kind is exp.GT)
        found.lower = least if found.lower is None else max(found.lower, least)
    if kind in (exp.LT, exp.LTE, exp.EQ):
        most = difference - (kind is exp.LT)
        found.upper = most if found.upper is None else min(found.upper, most)
    return True


# --- columns of both ---


def beside(left: Relation, right: Relation, building: Building) -> Relation:
    """The columns of both, for names; it is of no operator."""
    return Relation("", Schema(()), (*left.columns, *right.columns))


def _late(left: Relation, right: Relation, how: str, lower: int, upper: int) -> int | None:
    """How late a row of such a join comes out: one without a partner when none can come any more."""
    if left.late is None or right.late is None:
        return None
    alone_left = left.late + max(upper, 0) if how in ("left", "full") else 0
    alone_right = right.late + max(-lower, 0) if how in ("right", "full") else 0
    return max(left.late, right.late, alone_left, alone_right)


def prefix_for(left: Schema, right: Schema, alias: str, shared: set[str]) -> str:
    """Nothing, or what the names of the right need so that they are others than the left ones."""
    names = [name for name in right.names if name not in shared]
    prefix, number = "", 1
    while any(prefix + name in left for name in names):
        prefix = f"{alias or 'right'}{'' if number == 1 else number}_"
        number += 1
    return prefix


@dataclass(frozen=True)
class Keyed:
    """Both sides with the columns that pairs compare."""

    left: Relation
    right: Relation
    on: tuple[tuple[str, str], ...]
    prefix: str


def keyed(sides: Sides, found: Matched, building: Building, alias: str) -> Keyed:
    """Computes what is compared and is no column. Where a side may be missing, its key has a name of its own: SQL has both of them."""
    left, right = sides.left.relation, sides.right.relation
    place, text = sides.both.place(sides.node), sides.both.text
    lefts: list[tuple[str, Expr]] = []
    rights: list[tuple[str, Expr]] = []
    on: list[tuple[str, str]] = []
    for a, b, _ in found.pairs:
        on.append((_name(a, "key", left, lefts), _name(b, "key", right, rights)))
    if sides.how != "inner":
        for i, (a_name, b_name) in enumerate(on):
            if a_name == b_name:
                on[i] = a_name, _name(found.pairs[i][1], f"{alias or 'right'}_{b_name}", right, rights, always=True)
    left = building.with_columns("join_values", left, lefts, text, place)
    right = building.with_columns("join_values", right, rights, text, place)
    on = list(dict.fromkeys(on))
    shared = {a for a, b in on if a == b}
    return Keyed(left, right, tuple(on), prefix_for(left.schema, right.schema, alias, shared))


def _name(expr: Expr, wanted: str, relation: Relation, computed: list[tuple[str, Expr]], always: bool = False) -> str:
    if isinstance(expr, ColumnRef) and not always:
        return expr.name
    there = next((name for name, each in computed if same(each, expr)), None)
    if there is not None:
        return there
    number, name = 1, wanted
    while name in relation.schema or name in dict(computed):
        number += 1
        name = f"{wanted}_{number}"
    computed.append((name, expr))
    return name


def joined(pair: Keyed, at: str, schema: Schema) -> Relation:
    """The columns of both over what the join yields."""
    shared = {a for a, b in pair.on if a == b}
    names = {name: name if name in shared else pair.prefix + name for name in pair.right.schema.names}
    rights = tuple(replace(each, expr=renamed(each.expr, names)) for each in pair.right.columns)
    return Relation(at, schema, (*pair.left.columns, *rights))


def _rest(found: Matched, pair: Keyed, sides: Sides, make: Relation) -> Expr | None:
    scope = sides.both.over(make)
    return all_of([bound(each, scope) for each in found.rest])


def _joined_schema(pair: Keyed, how: str) -> Schema:
    probe = IntervalJoin("probe", "left", "right", 0, 0, pair.on, how, None, pair.prefix)
    return probe.output_schema(pair.left.schema, pair.right.schema)


# --- the joins ---


def join(sides: Sides, conjuncts: list[Node], building: Building, settings: SqlSettings, alias: str) -> Relation:
    """Two streams. Raises SqlError: they have no bound on time."""
    for scope in (sides.left, sides.right):
        if scope.relation.running:
            raise sides.both.error("SQL-CHANGELOG-INPUT", "a join reads running answers", sides.node)
        if scope.relation.rank is not None:
            raise sides.both.error("SQL-ROW-NUMBER", "a ROW_NUMBER in a join has no bound", sides.node)
    if (sides.left.relation.late is None) != (sides.right.relation.late is None):
        said = "answers at the end meet no row of a stream, which is over by then"
        raise sides.both.error("SQL-JOIN", said, sides.node, "EMIT AT END behind the join, or a window in its place")
    found = matched(conjuncts, sides)
    if found.bounds.keys() & {START, END}:
        return _window_join(sides, found, building, alias)
    if any(each.relation.window is not None and not each.relation.grouped for each in (sides.left, sides.right)):
        raise sides.both.error(
            "SQL-JOIN", "rows of windows meet in equal windows", sides.node, "window_start and window_end of both, equal"
        )
    return _interval_join(sides, found, building, settings, alias)


def _window_join(sides: Sides, found: Matched, building: Building, alias: str) -> Relation:
    left, right = sides.left.relation, sides.right.relation
    if not {START, END} <= found.bounds.keys():
        raise sides.both.error("SQL-WINDOW-GROUP", "one of window_start and window_end is not compared", sides.node)
    windows = window_of_rows(left), window_of_rows(right)
    if windows[0] is None or windows[1] is None:
        raise sides.both.error(
            "SQL-JOIN", "sessions and windows by rows have no ends that others have too", sides.node, "a TUMBLE or HOP on both sides"
        )
    if left.window != right.window:
        raise sides.both.error(
            "SQL-JOIN", f"the windows differ: {left.window} and {right.window}", sides.node, "the same window on both sides"
        )
    if not found.pairs and left.grouped and right.grouped:
        _pair_starts(sides, found)
    found.rest += found.times  # rows of one window have times of their own
    pair = keyed(sides, found, building, alias)
    schema = _joined_schema(pair, sides.how)
    over = joined(pair, "", schema)
    condition = _rest(found, pair, sides, over)
    place = sides.both.place(sides.node)
    ours, theirs = windows
    assert ours is not None and theirs is not None
    at = building.add(
        "join",
        lambda name: Join(name, pair.left.at, pair.right.at, ours, theirs, pair.on, sides.how, condition, pair.prefix),
        sides.both.text,
        place,
    )
    relation = joined(pair, at, building.schemas[at])
    return replace(relation, time=end_time(relation.columns), window=left.window, grouped=True)


def _pair_starts(sides: Sides, found: Matched) -> None:
    """Answers of one end have one start, so comparing it changes nothing; it brings those that meet to one instance."""
    starts = [next((c.expr for c in s.relation.columns if c.kind == START and c.expr is not None), None) for s in (sides.left, sides.right)]
    if starts[0] is not None and starts[1] is not None:
        found.pairs.append((starts[0], starts[1], sides.node))


def _interval_join(sides: Sides, found: Matched, building: Building, settings: SqlSettings, alias: str) -> Relation:
    ttl = settings.state_ttl
    lower, upper = found.lower, found.upper
    if TIME in found.bounds:  # of answers of windows it is the event time
        lower, upper = max(lower or 0, 0), min(upper or 0, 0)
    if lower is None or upper is None:
        if ttl is None:
            raise sides.both.error("SQL-UNBOUNDED-JOIN", _unbounded(lower, upper), sides.node)
        lower = -ttl - (sides.left.relation.late or 0) if lower is None else lower
        upper = ttl + (sides.right.relation.late or 0) if upper is None else upper
    pair = keyed(sides, found, building, alias)
    over = joined(pair, "", _joined_schema(pair, sides.how))
    condition = _rest(found, pair, sides, over)
    text, place = sides.both.text, sides.both.place(sides.node)
    at = building.add(
        "join",
        lambda name: IntervalJoin(name, pair.left.at, pair.right.at, lower, upper, pair.on, sides.how, condition, pair.prefix),
        text,
        place,
    )
    relation = joined(pair, at, building.schemas[at])
    late = _late(sides.left.relation, sides.right.relation, sides.how, lower, upper)
    return replace(relation, time=_later(relation, pair, sides, lower, upper), late=late)


def _unbounded(lower: int | None, upper: int | None) -> str:
    if lower is None and upper is None:
        return "the join has no bound on time"
    return f"the join has no {'lower' if lower is None else 'upper'} bound on the right event time"


def _later(relation: Relation, pair: Keyed, sides: Sides, lower: int, upper: int) -> Expr | None:
    """The event time of a pair is the later one's: known where the bounds say which that is."""
    if sides.how == "inner" and upper <= 0:
        return pair.left.time
    if sides.how == "inner" and lower >= 0 and pair.right.time is not None:
        shared = {a for a, b in pair.on if a == b}
        return renamed(pair.right.time, {n: n if n in shared else pair.prefix + n for n in pair.right.schema.names})
    return None


def as_of_join(sides: Sides, conjuncts: list[Node], building: Building, alias: str, by_version: bool) -> Relation:
    """`ASOF JOIN … ON k = k AND a.t >= b.t`, or `FOR SYSTEM_TIME AS OF a.t`. Raises SqlError."""
    if sides.left.relation.running or sides.right.relation.running:
        raise sides.both.error("SQL-CHANGELOG-INPUT", "a join reads running answers", sides.node)
    found = matched(conjuncts, sides)
    if found.upper is None and found.lower is None and not by_version:
        times = f"{_named(sides.left)} >= {_named(sides.right)}"
        raise sides.both.error("SQL-TIME", "an as-of join compares no event times", sides.node, f"AND {times}")
    if (found.upper or 0) != 0 or (found.lower or 0) > 0 or (found.upper is None and found.lower is not None and not by_version):
        raise sides.both.error("SQL-JOIN", "an as-of join takes the last row that is not later", sides.node, "left.t >= right.t")
    if not found.pairs:
        raise sides.both.error("SQL-JOIN", "an as-of join has no equality", sides.node, "ON a.k = b.k AND a.t >= b.t")
    found.rest += found.bounds.values()
    if found.rest and sides.how != "inner":
        raise sides.both.error("SQL-JOIN", f"{found.rest[0].sql()} beside an as-of join", found.rest[0], _BEFORE)
    tolerance = None if found.lower is None else -found.lower
    pair = keyed(sides, found, building, alias)
    text, place = sides.both.text, sides.both.place(sides.node)
    at = building.add(
        "join", lambda name: AsOfJoin(name, pair.left.at, pair.right.at, pair.on, sides.how, tolerance, pair.prefix), text, place
    )
    made = replace(joined(pair, at, building.schemas[at]), time=pair.left.time, late=pair.left.late)
    return _behind(made, found, sides, building)


def lookup(sides: Sides, table: CatalogTable, conjuncts: list[Node], building: Building, alias: str) -> Relation:
    """A static table at the right. Raises SqlError."""
    if sides.left.relation.running:
        raise sides.both.error("SQL-CHANGELOG-INPUT", "a lookup reads running answers", sides.node)
    found = matched(conjuncts, sides, timed=False)
    if not found.pairs:
        raise sides.both.error("SQL-JOIN", f"table {table.name!r} is looked up by nothing", sides.node, "ON s.k = t.k")
    if found.rest and sides.how != "inner":
        raise sides.both.error("SQL-JOIN", f"{found.rest[0].sql()} beside a lookup", found.rest[0], _BEFORE)
    for _, right, node in found.pairs:
        if not isinstance(right, ColumnRef):
            raise sides.both.error("SQL-JOIN", f"{node.sql()} computes of the table", node, "a column of the table, equal to an expression")
    pair = _table_pair(sides, found, building, alias)
    options = table.versions, table.refresh, table.by
    text, place = sides.both.text, sides.both.place(sides.node)
    at = building.add(
        "lookup", lambda name: Lookup(name, pair.left.at, table.table, pair.on, sides.how, pair.prefix, *options), text, place
    )
    left = pair.left
    relation = replace(joined(pair, at, building.schemas[at]), time=left.time, window=left.window, grouped=left.grouped)
    relation = replace(relation, late=left.late)
    return _behind(relation, found, sides, building)


def _table_pair(sides: Sides, found: Matched, building: Building, alias: str) -> Keyed:
    """The left computes a key under the name that the table has for it where it can."""
    left, right = sides.left.relation, sides.right.relation
    lefts: list[tuple[str, Expr]] = []
    on = []
    for a, b, _ in found.pairs:
        assert isinstance(b, ColumnRef)
        other = f"{alias}_key" if b.name == "key" else "key"
        wanted = b.name if sides.how == "inner" and b.name not in left.schema else other
        on.append((_name(a, wanted, left, lefts), b.name))
    if sides.how != "inner" and any(a == b for a, b in on):
        lefts += [(f"{alias}_{a}_key", ColumnRef(a)) for a, b in on if a == b]
        on = [(f"{alias}_{a}_key", b) if a == b else (a, b) for a, b in on]
    left = building.with_columns("lookup_values", left, lefts, sides.both.text, sides.both.place(sides.node))
    shared = {a for a, b in on if a == b}
    return Keyed(left, right, tuple(on), prefix_for(left.schema, right.schema, alias, shared))


def table_relation(table: CatalogTable, alias: str) -> Relation:
    return Relation("", table.table.schema, plain_columns(table.table.schema, alias))


def _behind(relation: Relation, found: Matched, sides: Sides, building: Building) -> Relation:
    """What else has to be true of an inner join that takes no condition."""
    if not found.rest:
        return relation
    test = all_of([bound(each, sides.both.over(relation)) for each in found.rest])
    assert test is not None
    at = building.add("where", lambda name: Filter(name, relation.at, test), sides.both.text, sides.both.place(found.rest[0]))
    return replace(relation, at=at)


def _named(scope: Scope) -> str:
    found = next((each for each in scope.relation.columns if same(each.expr, scope.relation.time)), None)
    return f"{found.of}.{found.name}" if found is not None else "rowtime"


def reads_only(node: Node, scope: Scope) -> bool:
    """Are all its columns of this scope, and some?"""
    columns = list(node.find_all(exp.Column))
    return bool(columns) and all(len(scope.find(each.name, each.table)) == 1 for each in columns)
