"""What comes out of a SELECT: its items, groups, OVER and ROW_NUMBER, DISTINCT, ORDER BY."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from cep.model.expr import ColumnRef, Expr
from cep.model.operators import Deduplicate, Filter, Sort
from driver.streaming_sql.binding import QueryBinding
from driver.streaming_sql.building import free
from driver.streaming_sql.dialect import Emit
from driver.streaming_sql.expressions import all_of, bound, condition, operands
from driver.streaming_sql.grouping import Grouping, has_aggregate
from driver.streaming_sql.over import Overs, bound_of, first_alone, is_row_number, ranked, windows_in
from driver.streaming_sql.relation import RANK, Rank, Relation, SqlColumn, same
from driver.streaming_sql.scope import Scope
from driver.streaming_sql.windows import is_event_time, time_named


@dataclass(frozen=True)
class Item:
    """One of a SELECT's, by its name."""

    name: str
    node: exp.Expr


def is_grouped(binder: QueryBinding, relation: Relation, node: exp.Select) -> bool:
    scope = binder.scope(relation)
    return bool(node.args.get("group") or node.args.get("having")) or any(has_aggregate(each, scope) for each in node.expressions)


def items_of(node: exp.Select, scope: Scope) -> list[Item]:
    """The items, `*` as the columns it stands for. Raises SqlError: two have one name, or one has none."""
    found: list[Item] = []
    for each in node.expressions:
        found += _starred(each, scope) if _is_star(each) else [_item(each, scope, len(found))]
    seen: dict[str, Item] = {}
    for item in found:
        if item.name.casefold() in seen:
            raise scope.error("SQL-SELECT", f"two columns are called {item.name!r}", item.node, f"{item.node.sql()} AS another_name")
        seen[item.name.casefold()] = item
    return found


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _starred(node: exp.Expr, scope: Scope) -> list[Item]:
    """Columns of all, or of `s.*`; of two that have one name the latter with its alias before it."""
    table = node.table.casefold() if isinstance(node, exp.Column) else ""
    star = node.this if isinstance(node, exp.Column) else node
    if star.args.get("replace") or star.args.get("rename"):
        raise scope.error("SQL-EXPRESSION", "* REPLACE and * RENAME", node, "the columns themselves")
    left_out = {each.name.casefold(): each for each in star.args.get("except_") or []}
    columns = [each for each in scope.relation.columns if not table or each.of == table]
    if not columns:
        raise scope.error("SQL-COLUMN", f"nothing in FROM is called {table!r}", node)
    for name, each in left_out.items():
        if name not in {column.name.casefold() for column in columns}:
            raise scope.error("SQL-COLUMN", f"* EXCEPT {each.name!r}: there is no such column", each)
    found: list[Item] = []
    for column in columns:
        if column.name.casefold() in left_out:
            continue
        name = free(column.name, [item.name for item in found]) if not column.of else column.name
        if name in {item.name for item in found}:
            name = free(f"{column.of}_{column.name}", [item.name for item in found])
        reference = exp.Column(this=exp.to_identifier(column.name), table=exp.to_identifier(column.of) if column.of else None)
        start = scope.place(node)
        reference.meta["start"] = start
        found.append(Item(name, reference))
    return found


def _item(node: exp.Expr, scope: Scope, place: int) -> Item:
    if isinstance(node, exp.Alias):
        return Item(node.alias, node.this)
    if isinstance(node, exp.Column):
        return Item(scope.column(node).name if scope.find(node.name, node.table) else node.name, node)
    called = node.this if isinstance(node, exp.Filter | exp.Window) else node
    if isinstance(called, exp.Anonymous):
        return Item(called.name.lower(), node)
    return Item(f"column{place + 1}", node)


def _aliases(items: list[Item]) -> dict[int, str]:
    return {id(item.node): item.name for item in items}


def grouped(binder: QueryBinding, node: exp.Select, scope: Scope, items: list[Item], emit: Emit | None) -> Relation:
    relation = scope.relation
    if relation.running:
        raise scope.error("SQL-CHANGELOG-INPUT", "GROUP BY reads running answers", node.args.get("group") or node)
    if relation.rank is not None:
        raise scope.error("SQL-ROW-NUMBER", "GROUP BY over a ROW_NUMBER without a bound", node)
    group = node.args.get("group")
    if group is not None:
        scope.check_parts(group, "expressions")
    grouping = Grouping(scope, binder.building, _aliases(items), {item.name.casefold(): item.node for item in items}, binder.settings)
    grouping.group_by(group.expressions if group is not None else [])
    within = grouping.within
    exprs = [bound(item.node, within) for item in items]
    having = node.args.get("having")
    tests = [condition(each, within, "HAVING") for each in operands(having.this, exp.And)] if having is not None else []
    found = grouping.relation_of(emit, group if group is not None else node)
    if having is not None and found.running:
        raise scope.error("SQL-CHANGELOG-INPUT", "HAVING filters running answers, so that earlier ones would stay", having, "EMIT AT END")
    test = all_of(tests)
    if test is not None and having is not None:
        at = binder.building.add("having", lambda name: Filter(name, found.at, test), binder.text, scope.place(having))
        found = replace(found, at=at)
    columns = tuple(
        SqlColumn(item.name, expr, "", _kind_of(item.node, expr, grouping, scope)) for item, expr in zip(items, exprs, strict=True)
    )
    made = _placed(binder, replace(found, columns=columns), node)
    return replace(made, keys=_kept_keys(columns, found)) if found.running else made


def _kept_keys(columns: tuple[SqlColumn, ...], found: Relation) -> tuple[str, ...]:
    return tuple(each.name for each in columns if isinstance(each.expr, ColumnRef) and each.expr.name in found.keys)


def _kind_of(node: exp.Expr, expr: Expr, grouping: Grouping, scope: Scope) -> str:
    if isinstance(expr, ColumnRef) and expr.name in grouping.kinds:
        return grouping.kinds[expr.name]
    if isinstance(node, exp.Column):
        found = scope.find(node.name, node.table)
        return found[0].kind if len(found) == 1 and found[0].kind == "window_time" else ""
    return ""


def projected(binder: QueryBinding, node: exp.Select, scope: Scope, items: list[Item], emit: Emit | None) -> Relation:
    aliases = _aliases(items)
    overs = Overs(scope, binder.building, node, aliases, binder.settings)
    qualify = node.args.get("qualify")
    numbered = [item for item in items if is_row_number(item.node)]
    qualified = [each for each in windows_in(qualify.this) if is_row_number(each)] if qualify is not None else []
    plain = [each for item in items if not is_row_number(item.node) for each in windows_in(item.node)]
    plain += [each for each in windows_in(qualify.this) if not is_row_number(each)] if qualify is not None else []
    relation = overs.add(plain)
    scope = scope.over(relation)
    ranks = [*(item.node for item in numbered), *qualified]
    if len(ranks) > 1 and not all(overs.spec(each) == overs.spec(ranks[0]) for each in ranks):  # type: ignore[arg-type]
        raise scope.error("SQL-ROW-NUMBER", "two ROW_NUMBERs of different windows", ranks[1])
    if emit is not None and not ranks and not _read_rank(node, scope, relation):
        raise scope.error("SQL-EMIT", "nothing here waits for its end", emit)
    rank: Rank | None = relation.rank
    if ranks:
        overs.scope = scope
        relation = overs.rank(ranks[0])  # type: ignore[arg-type]
        rank, scope = relation.rank, scope.over(relation)
    hooked = scope.with_hook(overs.hook)
    columns = tuple(_column(item, hooked) for item in items)
    if qualify is not None:
        relation, columns = _qualified(binder, replace(relation, columns=(*relation.columns,)), columns, qualify, hooked, emit, bool(ranks))
        rank = relation.rank
    relation = replace(relation, columns=columns, rank=rank if any(each.kind == RANK for each in columns) else None)
    return _placed(binder, relation, node)


def _read_rank(node: exp.Select, scope: Scope, relation: Relation) -> bool:
    """EMIT AT END was for the bound of a ROW_NUMBER in a subquery, which WHERE has taken."""
    from_ = node.args["from_"].this
    return any(is_row_number(each) for each in from_.find_all(exp.Window)) or relation.at.startswith("top")


def _column(item: Item, scope: Scope) -> SqlColumn:
    if is_row_number(item.node):
        return SqlColumn(item.name, None, "", RANK, scope.place(item.node))
    if isinstance(item.node, exp.Column) and (scope.hook is None or scope.hook(item.node) is None):
        found = scope.column(item.node)
        if found.expr is None:
            return SqlColumn(item.name, None, "", found.kind, scope.place(item.node))
        return SqlColumn(item.name, found.expr, "", found.kind)
    return SqlColumn(item.name, bound(item.node, scope), "")


def _qualified(
    binder: QueryBinding,
    relation: Relation,
    columns: tuple[SqlColumn, ...],
    qualify: exp.Expr,
    scope: Scope,
    emit: Emit | None,
    numbered: bool,
) -> tuple[Relation, tuple[SqlColumn, ...]]:
    """Filters behind OVER; names of the SELECT hold in it."""
    own = {each.name.casefold() for each in columns}
    over = replace(relation, columns=(*columns, *(each for each in relation.columns if each.name.casefold() not in own)))
    inner = replace(scope, relation=over)
    conjuncts = operands(qualify.this, exp.And)
    if over.rank is not None and over.rank.counted and emit is None and not first_alone(conjuncts, inner):
        over, numbered = binder.numbered(over, qualify), False
        scope = scope.with_hook(_number(over, scope))
    bounds = [bound_of(each.unnest(), inner) for each in conjuncts] if numbered else [None] * len(conjuncts)
    rest = [each for each, n in zip(conjuncts, bounds, strict=True) if n is None]
    found = [n for n in bounds if n is not None]
    if found:
        over = ranked(inner, binder.building, min(found), emit, binder.settings)
    test = all_of([condition(each, replace(scope, relation=over), "QUALIFY") for each in rest])
    if test is not None:
        at = binder.building.add("qualify", lambda name: Filter(name, over.at, test), binder.text, scope.place(qualify))
        over = replace(over, at=at)
    return over, over.columns[: len(columns)]


def _number(over: Relation, scope: Scope) -> Callable[[exp.Expr], Expr | None]:
    """The last column, for every ROW_NUMBER, beside what else stands for something."""
    return lambda node: ColumnRef(over.schema.names[-1]) if is_row_number(node) else scope.hook(node) if scope.hook is not None else None


def _placed(binder: QueryBinding, relation: Relation, node: exp.Expr) -> Relation:
    """Plain columns stay where they are; what is computed becomes fields."""
    if all(each.expr is None or isinstance(each.expr, ColumnRef) for each in relation.columns) or relation.rank is not None:
        return relation
    if any(each.expr is None for each in relation.columns):
        return relation
    if relation.window is not None and not relation.grouped:
        return relation  # bounds that are computed of the event time
    return binder.building.materialised(relation, binder.text, binder.nowhere.place(node))


def distinct_rows(binder: QueryBinding, relation: Relation, node: exp.Select) -> Relation:
    scope = binder.scope(relation)
    distinct = node.args["distinct"]
    if isinstance(distinct, exp.Distinct) and distinct.args.get("on"):
        raise scope.error("SQL-EXPRESSION", "DISTINCT ON", distinct, "ROW_NUMBER() OVER (PARTITION BY …) = 1")
    if relation.running:
        raise scope.error("SQL-CHANGELOG-INPUT", "DISTINCT reads running answers", node)
    place = scope.place(node)
    made = binder.building.materialised(relation, binder.text, place)
    by = tuple(each.name for each in made.columns)
    at = binder.building.add("distinct", lambda name: Deduplicate(name, made.at, by, binder.settings.state_ttl), binder.text, place)
    return replace(made, at=at, schema=binder.building.schemas[at])


def ordered(binder: QueryBinding, relation: Relation, order: exp.Expr, before: Scope | None = None) -> Relation:
    """ORDER BY the event time, ascending; a column that SELECT leaves out is one of `before`, whose rows have the same time."""
    scope = binder.scope(relation)
    asked = order.expressions
    first = asked[0]
    column = first.this
    if before is not None and isinstance(column, exp.Column) and not scope.find(column.name, column.table):
        scope = before
    if before is not None and not any(same(each.expr, relation.time) for each in relation.columns):
        scope = before
    if len(asked) != 1 or first.args.get("desc") or not is_event_time(column, scope):
        said = ", ".join(each.sql() for each in asked)
        raise scope.error("SQL-ORDER", f"ORDER BY {said}", order, f"ORDER BY {time_named(scope)}, or ROW_NUMBER() per window")
    at = binder.building.add("sort", lambda name: Sort(name, relation.at), binder.text, scope.place(order))
    return replace(relation, at=at)
