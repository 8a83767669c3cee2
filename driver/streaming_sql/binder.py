"""A SELECT becomes operators: FROM and its joins, WHERE, GROUP BY and HAVING, OVER, ROW_NUMBER, DISTINCT, the projection, ORDER BY.

Every part takes a Relation and gives one. A projection of plain columns is no operator: names alone change until something needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from cep.model.expr import Call, Cast, ColumnRef, Expr, lit
from cep.model.operators import Union
from cep.model.schema import DataType, Schema
from cep.model.streams import Stream
from cep.model.types import infer, promoted
from driver.streaming_sql.building import Building, of_row, of_stream
from driver.streaming_sql.catalog import CatalogTable, SqlCatalog, View, kind_of
from driver.streaming_sql.dialect import Emit, WindowTable
from driver.streaming_sql.expressions import operands
from driver.streaming_sql.match_syntax import MatchRecognize
from driver.streaming_sql.matching import matched
from driver.streaming_sql.reading import filtered, read_from
from driver.streaming_sql.relation import Relation, SqlColumn, SqlSettings
from driver.streaming_sql.scope import Scope
from driver.streaming_sql.selecting import distinct_rows, grouped, is_grouped, items_of, ordered, projected
from driver.streaming_sql.windows import windowed

_REFUSED = {
    "limit": ("SQL-LIMIT", "LIMIT"),
    "offset": ("SQL-LIMIT", "OFFSET"),
    "sort": ("SQL-ORDER", "SORT BY"),
    "cluster": ("SQL-ORDER", "CLUSTER BY"),
    "distribute": ("SQL-ORDER", "DISTRIBUTE BY"),
}
_PARTS = ("with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", "qualify", "windows", "order", "emit")
_PARTS_OF_UNION = ("with_", "this", "expression", "distinct", "order")
VIEWS_MAX = 50


@dataclass(frozen=True)
class Binder:
    """Binds the queries of one text. `ctes`: what WITH names, by folded name, with its alias; `depth`: of views in views."""

    building: Building
    catalog: SqlCatalog
    settings: SqlSettings
    text: str
    ctes: Mapping[str, tuple[exp.Expr, Binder, exp.Expr | None]] = field(default_factory=dict)
    depth: int = 0

    def scope(self, relation: Relation) -> Scope:
        return Scope(relation, self.catalog, self.text)

    @property
    def nowhere(self) -> Scope:
        return self.scope(Relation("", Schema(()), ()))

    def numbered(self, relation: Relation, node: exp.Expr) -> Relation:
        """The relation, whose ROW_NUMBER by event time is a column if there is one."""
        return self.building.numbered(relation, self.text, self.nowhere.place(node))

    def query(self, node: exp.Expr) -> Relation:
        """The rows of a query. Raises SqlError."""
        inside = self._with_ctes(node)
        if isinstance(node, exp.Subquery):
            self.nowhere.check_parts(node, "this", "with_")
            return inside.query(node.this)
        if isinstance(node, exp.Union):
            return inside._union(node)
        if isinstance(node, exp.SetOperation):
            raise self.nowhere.error("SQL-SET-OP", type(node).__name__.upper(), node)
        if not isinstance(node, exp.Select):
            raise self.nowhere.error("SQL-EXPRESSION", f"there is no {type(node).__name__.upper()}", node)
        return _select(inside, node)

    def _with_ctes(self, node: exp.Expr) -> Binder:
        with_ = node.args.get("with_")
        if with_ is None:
            return self
        if with_.args.get("recursive"):
            raise self.nowhere.error("SQL-EXPRESSION", "WITH RECURSIVE", with_, "a stateful_map of the builder")
        found = self
        for each in with_.expressions:
            found = replace(found, ctes={**found.ctes, each.alias.casefold(): (each.this, found, each.args.get("alias"))})
        return found

    # --- FROM ---

    def table(self, node: exp.Expr) -> Relation:
        """What stands in FROM or behind JOIN, under its alias. Raises SqlError."""
        alias = node.alias_or_name
        if isinstance(node, WindowTable):
            return self._window_table(node)
        if isinstance(node, MatchRecognize):
            relation = self.numbered(self.table(node.this), node)
            return replace(matched(self, node, relation), late=relation.late)
        if isinstance(node, exp.Subquery):
            self.nowhere.check_parts(node, "this", "alias")
            return self._renamed(self.query(node.this), node.args.get("alias")).named(node.alias)
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            if isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous):
                raise self.nowhere.error(
                    "SQL-NAME", f"there is no table function {node.this.name}", node, "TUMBLE, HOP, SESSION, CUMULATE, SIZE or TRANSACTION"
                )
            raise self.nowhere.error("SQL-FROM", f"{type(node).__name__.upper()} stands in FROM", node)
        if node.args.get("db") is not None:
            raise self.nowhere.error("SQL-NAME", f"{node.sql()}: the catalogue has no schemas", node, node.name)
        self.nowhere.check_parts(node, "this", "alias", "version")
        return self._renamed(self._by_name(node), node.args.get("alias")).named(alias)

    def _renamed(self, relation: Relation, alias: exp.Expr | None) -> Relation:
        """Its first columns under the names that stand behind the alias: `AS x (a, b)`. Raises SqlError: there are not so many."""
        names = [] if alias is None else alias.args.get("columns") or []
        if len(names) > len(relation.columns):
            said = f"{len(names)} names, and there are {len(relation.columns)} columns"
            raise self.nowhere.error("SQL-COLUMN", said, names[len(relation.columns)], "as many at most")
        named = tuple(replace(column, name=name.name) for column, name in zip(relation.columns, names, strict=False))
        return replace(relation, columns=(*named, *relation.columns[len(named) :]))

    def _by_name(self, node: exp.Table) -> Relation:
        name = node.name
        if name.casefold() in self.ctes:
            query, binder, alias = self.ctes[name.casefold()]
            deeper = replace(binder, depth=self.depth + 1)
            return self._renamed(self.building.once(query, lambda: deeper.query(query)), alias)
        entry = self.catalog.find(name)
        match entry:
            case Stream():
                return of_stream(entry, self.building.read(entry), name)
            case View(query=query, text=text):
                if self.depth > VIEWS_MAX:
                    raise self.nowhere.error("SQL-DEPTH", f"view {name!r} reads itself, or too many are inside each other", node)
                deeper = replace(self, text=text, ctes={}, depth=self.depth + 1)
                return self.building.once(query, lambda: deeper.query(query))
            case CatalogTable():
                raise self.nowhere.error(
                    "SQL-FROM", f"{name!r} is a table, which is looked up and not read", node, f"FROM a stream JOIN {name} ON …"
                )
            case None:
                raise self.nowhere.error("SQL-NAME", f"there is no {name!r}{self.catalog.near(name)}", node)
        raise self.nowhere.error("SQL-FROM", f"{name!r} is a {kind_of(entry)}", node)

    def _window_table(self, node: WindowTable) -> Relation:
        inner = node.this
        relation = self.table(inner) if isinstance(inner, exp.Table) else self.query(inner.this)
        relation = self.numbered(relation, node)
        found = windowed(node, relation, self.scope(relation))
        alias = node.args.get("alias")
        name = alias.name if alias is not None else inner.alias_or_name if isinstance(inner, exp.Table) else ""
        return self._renamed(found, alias).named(name)

    # --- UNION ALL ---

    def _union(self, node: exp.Union) -> Relation:
        scope = self.nowhere
        if node.args.get("distinct"):
            raise scope.error("SQL-SET-OP", "UNION, which takes equal rows away", node)
        order = node.args.get("order")
        _refuse(node, scope)
        sides = [self.numbered(self.query(each), each) for each in _of_union(node)]
        for each in sides:
            if each.running:
                raise scope.error("SQL-CHANGELOG-INPUT", "UNION ALL reads running answers", node)
            if each.rank is not None:
                raise scope.error("SQL-ROW-NUMBER", "ROW_NUMBER in a UNION ALL has no bound", node)
        relation = _united(self, node, sides)
        return ordered(self, relation, order) if order is not None else relation


def _of_union(node: exp.Expr) -> list[exp.Expr]:
    """The queries of a chain of UNION ALL."""
    found: list[exp.Expr] = []
    rest = [node]
    while rest:
        each = rest.pop()
        inner = each.this if isinstance(each, exp.Subquery) and not each.args.get("with_") else each
        if (isinstance(inner, exp.Union) and not inner.args.get("distinct") and not inner.args.get("with_")) or (
            isinstance(inner, exp.Union) and inner is node
        ):
            rest += [inner.expression, inner.this]
        else:
            found.append(each)
    return found


def _united(binder: Binder, node: exp.Union, sides: list[Relation]) -> Relation:
    """One schema for all: the names of the first, types that hold all, NULL where one allows it."""
    scope, building = binder.nowhere, binder.building
    place = scope.place(node)
    counts = {len(each.columns) for each in sides}
    if len(counts) > 1:
        raise scope.error("SQL-TYPE", f"the queries have {' and '.join(map(str, sorted(counts)))} columns", node, "as many columns in each")
    names = [each.name for each in sides[0].columns]
    inferred = [[infer(of_row(column, binder.text, place), each.schema) for column in each.columns] for each in sides]
    targets: list[tuple[DataType, bool]] = []
    for i, name in enumerate(names):
        type_ = promoted(tuple(each[i][0] for each in inferred))
        if type_ is None:
            raise scope.error("SQL-TYPE", f"column {name!r} is {' and '.join(str(each[i][0]) for each in inferred)}", node)
        targets.append((type_, any(each[i][1] for each in inferred)))
    seen: set[str] = set()
    inputs = []
    for each, types in zip(sides, inferred, strict=True):
        columns = tuple(
            SqlColumn(name, _as(of_row(column, binder.text, place), have, want), column.of)
            for name, column, have, want in zip(names, each.columns, types, targets, strict=True)
        )
        made = building.materialised(replace(each, columns=columns), binder.text, place)
        if made.at in seen:  # a union reads an input once
            made = building.materialised(made, binder.text, place, always=True)
        seen.add(made.at)
        inputs.append(made)
    at = building.add("union", lambda name: Union(name, tuple(each.at for each in inputs)), binder.text, place)
    times = {each.time.name if isinstance(each.time, ColumnRef) else "" for each in inputs}
    time = ColumnRef(times.pop()) if len(times) == 1 and "" not in times else None
    late = None if any(each.late is None for each in sides) else max(each.late or 0 for each in sides)
    return Relation(at, building.schemas[at], tuple(SqlColumn(name, ColumnRef(name)) for name in names), time, late=late)


def _as(expr: Expr, have: tuple[DataType, bool], want: tuple[DataType, bool]) -> Expr:
    made = expr if have[0] == want[0] else Cast(expr, want[0], False)
    return Call("when", (lit(True), made)) if want[1] and not have[1] else made


# --- SELECT ---


def _refuse(node: exp.Expr, scope: Scope) -> None:
    for key, (code, what) in _REFUSED.items():
        if node.args.get(key):
            given = node.args[key]
            raise scope.error(code, what, given[0] if isinstance(given, list) else given if isinstance(given, exp.Expr) else node)
    scope.check_parts(node, *(_PARTS_OF_UNION if isinstance(node, exp.SetOperation) else _PARTS))


def _select(binder: Binder, node: exp.Select) -> Relation:
    scope = binder.nowhere
    _refuse(node, scope)
    if node.args.get("from_") is None:
        raise scope.error("SQL-FROM", "the query has no FROM", node)
    if not node.expressions:
        raise scope.error("SQL-SELECT", "nothing stands between SELECT and FROM", node, "SELECT *, or columns")
    emit: Emit | None = node.args.get("emit")
    conjuncts = operands(node.args["where"].this, exp.And) if node.args.get("where") is not None else []
    relation, conjuncts = read_from(binder, node, conjuncts)
    relation = filtered(binder, relation, conjuncts, emit if not is_grouped(binder, relation, node) else None)
    scope = binder.scope(relation)
    items = items_of(node, scope)
    if not all(isinstance(item.node, exp.Column) for item in items) or is_grouped(binder, relation, node) or node.args.get("qualify"):
        relation = binder.numbered(relation, node)
        scope = binder.scope(relation)
    if is_grouped(binder, relation, node):
        relation = grouped(binder, node, scope, items, emit)
    else:
        relation = projected(binder, node, scope, items, emit)
    if node.args.get("distinct") is not None:
        relation = distinct_rows(binder, relation, node)
    order = node.args.get("order")
    before = None if is_grouped(binder, scope.relation, node) else scope
    return ordered(binder, relation, order, before) if order is not None else relation
