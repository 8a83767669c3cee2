"""FROM, its joins, and WHERE: what a SELECT reads."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from cep.model.expr import ColumnRef
from cep.model.operators import Filter, FlatMap
from driver.streaming_sql.binding import QueryBinding
from driver.streaming_sql.building import free
from driver.streaming_sql.catalog import CatalogTable
from driver.streaming_sql.dialect import Emit
from driver.streaming_sql.expressions import all_of, bound, condition, operands
from driver.streaming_sql.grouping import has_aggregate
from driver.streaming_sql.joins import Sides, as_of_join, beside, join, lookup, reads_only, table_relation
from driver.streaming_sql.over import bound_of, first_alone, ranked
from driver.streaming_sql.relation import Relation, SqlColumn
from driver.streaming_sql.scope import Scope
from driver.streaming_sql.windows import is_event_time, time_named


def read_from(binder: QueryBinding, node: exp.Select, conjuncts: list[exp.Expr]) -> tuple[Relation, list[exp.Expr]]:
    """The joined relations, and what of WHERE is left: a condition on one side is put before the join, where that changes nothing."""
    joins = node.args.get("joins") or []
    relation = binder.table(node.args["from_"].this)
    if any(_how(each) not in ("inner", "left") for each in joins):  # what they let out without a match WHERE judges, behind them
        for each in joins:
            relation, _ = _joined(binder, relation, each, [])
        return relation, conjuncts
    if joins:
        relation, conjuncts = _pushed(binder, relation, node, joins, conjuncts)
    for each in joins:
        relation, conjuncts = _joined(binder, relation, each, conjuncts)
    return relation, conjuncts


def _how(node: exp.Join) -> str:
    return (node.side or "inner").lower()


def _pushed(
    binder: QueryBinding, relation: Relation, node: exp.Select, joins: list[exp.Join], conjuncts: list[exp.Expr]
) -> tuple[Relation, list[exp.Expr]]:
    """Conditions on the first of FROM, by its alias or by names that the others do not have."""
    if relation.rank is not None or relation.running:
        return relation, conjuncts
    scope, taken = binder.scope(relation), []
    alias = {each.of for each in relation.columns}
    for each in conjuncts:
        columns = list(each.find_all(exp.Column))
        if columns and all(column.table and column.table.casefold() in alias for column in columns) and reads_only(each, scope):
            taken.append(each)
    if not taken:
        return relation, conjuncts
    kept = [each for each in conjuncts if all(each is not other for other in taken)]
    return filtered(binder, relation, taken, None), kept


def _joined(binder: QueryBinding, left: Relation, node: exp.Join, conjuncts: list[exp.Expr]) -> tuple[Relation, list[exp.Expr]]:
    left = binder.numbered(left, node)
    scope = binder.scope(left)
    target, how = node.this, _how(node)
    scope.check_parts(node, "this", "on", "using", "side", "kind", "method")
    if isinstance(target, exp.Unnest):
        if how != "inner" or node.args.get("using"):
            said = f"{how.upper()} JOIN" if how != "inner" else "USING"
            raise scope.error("SQL-JOIN", f"{said} of UNNEST", node, "CROSS JOIN UNNEST(list) AS u (x)")
        made, on = _unnested(binder, left, target), node.args.get("on")
        tests = [] if on is None or (isinstance(on, exp.Boolean) and on.this) else operands(on, exp.And)
        return filtered(binder, made, tests, None), conjuncts
    if how not in ("inner", "left", "right", "full") or node.kind in ("SEMI", "ANTI") or node.method == "NATURAL":
        raise scope.error("SQL-JOIN", f"there is no {node.method or node.kind or how} JOIN", node, "JOIN, LEFT, RIGHT or FULL JOIN with ON")
    alias, version = target.alias_or_name, target.args.get("version") if isinstance(target, exp.Table) else None
    entry = binder.catalog.find(target.name) if isinstance(target, exp.Table) and target.name.casefold() not in binder.ctes else None
    right = table_relation(entry, alias or entry.name) if isinstance(entry, CatalogTable) else binder.numbered(binder.table(target), target)
    on = operands(node.args["on"], exp.And) if node.args.get("on") is not None else _using(node, left, right, scope)
    last_row = version is not None or node.method == "ASOF" or (isinstance(entry, CatalogTable) and entry.versions is not None)
    if how == "inner" and not last_row:  # WHERE says more of how they meet, and of a comma all; of the last row it judges what has met
        conjuncts, more = _about_both(binder, left, right, conjuncts)
        on = [*on, *more]
    if how == "inner" and not last_row and not isinstance(entry, CatalogTable) and right.rank is None and not right.running:
        mine = [each for each in [*conjuncts, *on] if _is_of(each, binder.scope(right), scope)]
        if mine:
            right = filtered(binder, right, mine, None)
            conjuncts = [each for each in conjuncts if all(each is not other for other in mine)]
            on = [each for each in on if all(each is not other for other in mine)]
    sides = Sides(scope, binder.scope(right), binder.scope(beside(left, right, binder.building)), how, node)
    if isinstance(entry, CatalogTable):
        _check_version(sides, version)
        return lookup(sides, entry, on, binder.building, alias), conjuncts
    if version is not None or node.method == "ASOF":
        _check_version(sides, version)
        if how not in ("inner", "left"):
            raise scope.error("SQL-JOIN", f"there is no {how.upper()} as-of join", node, "ASOF JOIN or ASOF LEFT JOIN")
        return as_of_join(sides, on, binder.building, alias, version is not None), conjuncts
    made = join(sides, on, binder.building, binder.settings, alias)
    return _without(made, node, len(left.columns)), conjuncts


def _is_of(node: exp.Expr, right: Scope, left: Scope) -> bool:
    """Is it a condition on the right side alone, and no bound of a ROW_NUMBER?"""
    columns = list(node.find_all(exp.Column))
    if not reads_only(node, right) or has_aggregate(node, right):
        return False
    return all(not left.find(column.name, column.table) for column in columns)


def _about_both(binder: QueryBinding, left: Relation, right: Relation, conjuncts: list[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """What of WHERE compares the two, and what is left."""
    ours, theirs = binder.scope(left), binder.scope(right)
    on: list[exp.Expr] = []
    for each in conjuncts:
        columns = list(each.find_all(exp.Column))
        found = [(bool(ours.find(c.name, c.table)), bool(theirs.find(c.name, c.table))) for c in columns]
        if any(a for a, _ in found) and any(b for _, b in found) and all(a or b for a, b in found):
            on.append(each)
    return [each for each in conjuncts if all(each is not other for other in on)], on


def _using(node: exp.Join, left: Relation, right: Relation, scope: Scope) -> list[exp.Expr]:
    """USING (k) as equalities."""
    made: list[exp.Expr] = []
    if node.args.get("using") and _how(node) != "inner":
        raise scope.error("SQL-JOIN", "USING of an outer join", node, "ON, and COALESCE of both columns")
    for each in node.args.get("using") or []:
        ours = next((c.of for c in left.columns if c.name.casefold() == each.name.casefold()), "")
        theirs = next((c.of for c in right.columns), "")
        sides = [exp.Column(this=each.copy(), table=exp.to_identifier(of) if of else None) for of in (ours, theirs)]
        made.append(exp.EQ(this=sides[0], expression=sides[1]))
    return made


def _without(joined: Relation, node: exp.Join, lefts: int) -> Relation:
    """Columns of USING are there once."""
    shared = {each.name.casefold() for each in node.args.get("using") or []}
    kept = [each for i, each in enumerate(joined.columns) if i < lefts or each.name.casefold() not in shared]
    return replace(joined, columns=tuple(kept))


def _check_version(sides: Sides, version: exp.Expr | None) -> None:
    if version is None:
        return
    asked = version.expression
    if isinstance(asked, exp.Anonymous) and asked.name.upper() == "PROCTIME":
        raise sides.both.error("SQL-PROCTIME", "AS OF PROCTIME()", version)
    if asked is None or not is_event_time(asked, sides.left):
        named = time_named(sides.left)
        said = asked.sql() if asked is not None else "nothing"
        raise sides.both.error(
            "SQL-TIME", f"AS OF {said} is not the event time of the left side", version, f"FOR SYSTEM_TIME AS OF {named}"
        )


def _unnested(binder: QueryBinding, left: Relation, node: exp.Unnest) -> Relation:
    """`CROSS JOIN UNNEST(list) AS u (x)`: a row for each element."""
    scope = binder.scope(left)
    alias = node.args.get("alias")
    names = [each.name for each in alias.columns] if alias is not None else []
    if len(node.expressions) != 1 or node.args.get("offset") or len(names) > 1:
        raise scope.error("SQL-JOIN", "UNNEST takes one list", node, "CROSS JOIN UNNEST(list) AS u (x)")
    name = free(names[0] if names else (alias.name if alias is not None and alias.name else "element"), left.schema.names)
    of = bound(node.expressions[0], scope)
    kept = tuple((each, ColumnRef(each)) for each in left.schema.names)
    at = binder.building.add(
        "unnest", lambda operator: FlatMap(operator, left.at, (*kept, (name, of)), name), binder.text, scope.place(node)
    )
    column = SqlColumn(names[0] if names else name, ColumnRef(name), alias.name.casefold() if alias is not None else "")
    return replace(left, at=at, schema=binder.building.schemas[at], columns=(*left.columns, column))


def filtered(binder: QueryBinding, relation: Relation, conjuncts: list[exp.Expr], emit: Emit | None) -> Relation:
    """Filters, and bounds of a ROW_NUMBER."""
    relation, rest = _rank_bound(binder, relation, conjuncts, emit)
    if not rest:
        return relation
    scope = binder.scope(relation)
    parts = [condition(each, scope, "WHERE") for each in rest]
    if relation.running:
        _check_keys(relation, rest, scope)
    test = all_of(parts)
    assert test is not None
    at = binder.building.add("where", lambda name: Filter(name, relation.at, test), binder.text, scope.place(rest[0]))
    return replace(relation, at=at)


def _rank_bound(binder: QueryBinding, relation: Relation, conjuncts: list[exp.Expr], emit: Emit | None) -> tuple[Relation, list[exp.Expr]]:
    if relation.rank is None:
        return relation, conjuncts
    scope = binder.scope(relation)
    if relation.rank.counted and emit is None and not first_alone(conjuncts, scope):
        return binder.numbered(relation, relation.rank.node), conjuncts
    found = [bound_of(each.unnest(), scope) for each in conjuncts]
    bounds = [n for n in found if n is not None]
    if not bounds:
        return relation, conjuncts
    rest = [each for each, n in zip(conjuncts, found, strict=True) if n is None]
    return ranked(scope, binder.building, min(bounds), emit, binder.settings), rest


def _check_keys(relation: Relation, nodes: list[exp.Expr], scope: Scope) -> None:
    """A filter on another column would leave an answer as the last that is not."""
    for node in nodes:
        for column in node.find_all(exp.Column):
            expr = scope.column(column).expr
            if not isinstance(expr, ColumnRef) or expr.name not in relation.keys:
                raise scope.error("SQL-CHANGELOG-INPUT", f"{column.sql()} is no key of the running answers", column)
