"""GROUP BY: keys, functions of groups, and what of a SELECT they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from cep.errors import QueryError, meant
from cep.model import expr as expressions
from cep.model import functions as aggregates
from cep.model.expr import ColumnRef, Expr
from cep.model.expr_functions import when
from cep.model.functions import Computed, UserFunction
from cep.model.functions import Function as GroupFunction
from cep.model.operators import Aggregate, Map
from cep.model.schema import DataType, Field, Schema
from cep.model.types import infer
from cep.model.windows import TimeWindow, UnboundedWindow, Window
from driver.builder.computed import computed_first
from driver.streaming_sql.building import Building, free
from driver.streaming_sql.catalog import NamedFunction
from driver.streaming_sql.dialect import Emit
from driver.streaming_sql.errors import SqlError
from driver.streaming_sql.expressions import bind, bound
from driver.streaming_sql.functions import AGGREGATES
from driver.streaming_sql.relation import BOUNDS, END, START, TIME, Relation, SqlSettings, before, same
from driver.streaming_sql.scope import Scope
from driver.streaming_sql.spans import interval_us
from driver.streaming_sql.windows import step_of

AT_END_US = 2**56
"""Answers so seldom come at the end alone."""


@dataclass(frozen=True)
class Key:
    name: str
    expr: Expr


def aggregate_name(node: exp.Expr, scope: Scope) -> str | None:
    """The name of an aggregate that is called here, FILTER or not."""
    called = node.this if isinstance(node, exp.Filter) else node
    if not isinstance(called, exp.Anonymous):
        return None
    own = scope.catalog.find(called.name)
    known = called.name.lower() in AGGREGATES or (isinstance(own, NamedFunction) and own.aggregate)
    return str(called.name) if known else None


def has_aggregate(node: exp.Expr, scope: Scope) -> bool:
    """Whether an aggregate of a group, not of OVER, stands in it; subqueries are not looked into."""
    rest = [node]
    while rest:
        each = rest.pop()
        if isinstance(each, exp.Query | exp.Window):
            continue
        if aggregate_name(each, scope) is not None:
            return True
        rest += list(each.iter_expressions())
    return False


class Grouping:
    """What a SELECT needs of its groups, as it is found.

    Args:
        aliases: names of the SELECT's items, by the ids of their nodes: an aggregate alone has its item's.
        items: the items by folded alias, for HAVING and GROUP BY.
    """

    def __init__(
        self, scope: Scope, building: Building, aliases: Mapping[int, str], items: Mapping[str, exp.Expr], settings: SqlSettings
    ) -> None:
        self.scope, self.building, self.aliases, self.items, self.settings = scope, building, aliases, items, settings
        self.relation = scope.relation
        self.keys: list[Key] = []
        self.bounds: set[str] = set()  # which of the window's are in GROUP BY
        self.functions: dict[str, GroupFunction] = {}
        self._made: dict[str, str] = {}  # what a function is, as it is written -> its field
        self._starts: dict[str, str] = {}  # kind of bound -> its field

    # --- keys ---

    def group_by(self, nodes: Sequence[exp.Expr]) -> None:
        """Takes the keys. Raises SqlError."""
        for node in nodes:
            self._add_key(node)
        if self.bounds & {START, END} and not {START, END} <= self.bounds:
            missing = END if START in self.bounds else START
            raise self.scope.error("SQL-WINDOW-GROUP", f"GROUP BY without {missing}", nodes[0])

    def _add_key(self, node: exp.Expr) -> None:
        if isinstance(node, exp.Literal):
            raise self.scope.error("SQL-GROUP-COLUMN", f"GROUP BY {node.sql()}, a constant", node, "the column itself")
        if isinstance(node, exp.Anonymous) and node.name.upper() in ("TUMBLE", "HOP", "SESSION", "CUMULATE"):
            instead = "SELECT … FROM TABLE(…) GROUP BY window_start, window_end and the keys"
            raise self.scope.error("SQL-WINDOW", f"{node.name.upper()} is a table function, which stands in FROM", node, instead)
        alias = self._by_alias(node)
        if alias is not None:
            node = alias
        if has_aggregate(node, self.scope):
            raise self.scope.error("SQL-AGGREGATE", f"GROUP BY {node.sql()}, which holds an aggregate", node)
        kind = self._kind(node)
        if kind and self.relation.window is not None:
            self.bounds.add(kind)
            return
        expr = bound(node, self.scope)
        if any(same(key.expr, expr) for key in self.keys):
            return
        self.keys.append(Key(self._key_name(node, expr), expr))

    def _by_alias(self, node: exp.Expr) -> exp.Expr | None:
        """The item that a name means that is no column."""
        if isinstance(node, exp.Column) and not node.table and not self.scope.find(node.name):
            return self.items.get(node.name.casefold())
        return None

    def _kind(self, node: exp.Expr) -> str:
        """Which bound of the window it is."""
        if not isinstance(node, exp.Column):
            return ""
        found = self.scope.find(node.name, node.table)
        return found[0].kind if len(found) == 1 and found[0].kind in BOUNDS else ""

    def _key_name(self, node: exp.Expr, expr: Expr) -> str:
        if isinstance(expr, ColumnRef):
            return expr.name
        wanted = next((alias for alias, item in self._items() if item == node), "key")
        return free(wanted, [*self.relation.schema.names, *(key.name for key in self.keys)])

    def _items(self) -> list[tuple[str, exp.Expr]]:
        return [(self.aliases[id(item)], item) for item in self.items.values() if id(item) in self.aliases]

    # --- what stands for what ---

    @property
    def within(self) -> Scope:
        """A scope in which keys and aggregates stand for their fields."""
        return self.scope.with_hook(self.hook, self._type_of)

    def _type_of(self, made: Expr) -> DataType | None:
        """Of an expression over keys and functions."""
        try:
            return infer(made, self._answers())[0]
        except QueryError:  # of a function that its operator refuses, with the place
            return None

    def _answers(self) -> Schema:
        """What the group's operator will have, as far as its keys and functions have been found."""
        window = self.relation.window if self.bounds and self.relation.window is not None else UnboundedWindow(AT_END_US, None)
        schema, by = self.relation.schema, tuple(key.name for key in self.keys)
        if not self.functions:
            return Schema(tuple(Field(key.name, *infer(key.expr, schema)) for key in self.keys))
        fields, functions = self._computed(window, by)
        if fields:
            schema = Map("values", "rows", fields).output_schema(schema)
        return Aggregate("group", "values", window, by, functions).output_schema(schema)

    def hook(self, node: exp.Expr) -> Expr | None:
        if isinstance(node, exp.Window):
            raise self.scope.error("SQL-OVER", "OVER beside GROUP BY", node, "a subquery with the GROUP BY, and OVER around it")
        if aggregate_name(node, self.scope) is not None:
            return self._function(node)
        kind = self._kind(node)
        if kind and self.bounds:
            return self._bound(kind, node)
        if not isinstance(node, exp.Literal | exp.Boolean | exp.Null | exp.Star | exp.Interval) and not has_aggregate(node, self.scope):
            return self._as_key(node)
        return None

    def _as_key(self, node: exp.Expr) -> Expr | None:
        alias = self._by_alias(node)
        if alias is not None:
            return bind(alias, self.within)
        try:
            written = expressions.to_json(bind(node, self.scope))
        except SqlError:
            if isinstance(node, exp.Column):
                raise
            return None
        for key in self.keys:
            if expressions.to_json(key.expr) == written:
                return ColumnRef(key.name)
        if isinstance(node, exp.Column):
            raise self.scope.error("SQL-GROUP-COLUMN", f"{node.sql()}, which is not in GROUP BY", node)
        return None

    def _bound(self, kind: str, node: exp.Expr) -> Expr:
        """Of rows in windows a function of the group; of answers of windows a column that is a key."""
        if kind == TIME:
            return before(self._bound(END, node))
        if kind not in self._starts:
            if self.relation.grouped:
                found = next((each for each in self.relation.columns if each.kind == kind), None)
                if found is None or found.expr is None:
                    raise self.scope.error("SQL-WINDOW-GROUP", f"{kind} is not in the subquery's SELECT", node)
                taken = [*self.relation.schema.names, *(key.name for key in self.keys)]
                name = found.expr.name if isinstance(found.expr, ColumnRef) else free(kind, taken)
                self.keys.append(Key(name, found.expr))
                self._starts[kind] = name
            else:
                wanted = self.aliases.get(id(node), kind)
                self._starts[kind] = self._add(wanted, getattr(aggregates, kind)())
        return ColumnRef(self._starts[kind])

    def _function(self, node: exp.Expr) -> Expr:
        function = group_function(node, self.scope)
        written = _written(function)
        if written not in self._made:
            called = node.this if isinstance(node, exp.Filter) else node
            self._made[written] = self._add(self.aliases.get(id(node), called.name.lower()), function)
        return ColumnRef(self._made[written])

    def _add(self, wanted: str, function: GroupFunction) -> str:
        name = free(wanted, [*self.functions, *(key.name for key in self.keys)])
        self.functions[name] = function
        return name

    # --- the operator ---

    def relation_of(self, emit: Emit | None, node: exp.Expr) -> Relation:
        """The groups' answers: its columns are keys and functions. Raises SqlError."""
        window, running = self._window(emit, node)
        if not self.functions:
            self._add("count", aggregates.count())
        by = tuple(key.name for key in self.keys)
        fields, functions = self._computed(window, by)
        place = self.scope.place(node)
        text, at, building = self.scope.text, self.relation.at, self.building
        if fields:
            at = building.mapped("group_values", at, fields, text, place)
        at = building.add("group", lambda name: Aggregate(name, at, window, by, functions), text, place)
        end = self._starts.get(END)
        time = None if end is None or step_of(self.relation.window) is None else before(ColumnRef(end))
        kept = self.relation.window if self.bounds else None
        at_end = emit is not None and emit.args["mode"] == "END"
        made = Relation(at, building.schemas[at], (), time, kept, kept is not None, None, running, by if running else ())
        return replace(made, late=None if at_end else 0)

    @property
    def kinds(self) -> Mapping[str, str]:
        """Field -> which bound of the window it is."""
        return {field: kind for kind, field in self._starts.items()}

    def _computed(self, window: Window, by: tuple[str, ...]) -> tuple[tuple[tuple[str, Expr], ...], tuple[tuple[str, GroupFunction], ...]]:
        """As the builder computes arguments first, and keys that are no columns."""
        given = tuple(self.functions.items())
        computed_keys = {key.name: key.expr for key in self.keys if not isinstance(key.expr, ColumnRef)}
        if not computed_keys:
            return computed_first(window, by, given)
        kept = [key.name for key in self.keys if key.name not in computed_keys]
        fields, functions = computed_first(window, kept, given)
        read = [column for _, function in functions for column in function.columns]
        found = dict(fields) or {name: ColumnRef(name) for name in dict.fromkeys([*kept, *read])}
        return (*computed_keys.items(), *found.items()), functions

    def _window(self, emit: Emit | None, node: exp.Expr) -> tuple[Window, bool]:
        if self.bounds:
            if emit is not None:
                raise self.scope.error("SQL-EMIT", "EMIT beside a window, which answers when it ends", emit, "no EMIT")
            return self._of_window(node), False
        if emit is None:
            if self.relation.window is not None:
                raise self.scope.error("SQL-WINDOW-GROUP", "GROUP BY without the window", node)
            raise self.scope.error("SQL-UNBOUNDED-GROUP", "GROUP BY without a window", node)
        mode = emit.args["mode"]
        if mode == "END":
            return UnboundedWindow(AT_END_US, None), False
        every = self._every(emit) if mode == "EVERY" else None
        try:
            return UnboundedWindow(every, self.settings.state_ttl), True
        except QueryError as error:
            raise self.scope.error("SQL-EMIT", error.message, emit, "SET state_ttl to more, or EMIT EVERY less") from None

    def _every(self, emit: Emit) -> int:
        if not isinstance(emit.this, exp.Interval):
            raise self.scope.error("SQL-EMIT", "EMIT EVERY takes an INTERVAL", emit, "EMIT EVERY INTERVAL '1' MINUTE")
        return interval_us(emit.this, self.scope.text)

    def _of_window(self, node: exp.Expr) -> Window:
        window = self.relation.window
        assert window is not None
        if self.relation.grouped:
            step = step_of(window)
            if step is None:
                raise self.scope.error(
                    "SQL-WINDOW", "windows that end at no fixed times cannot be grouped again", node, "a TUMBLE around it"
                )
            return step
        partition = self.relation.partition
        names = {key.name for key in self.keys}
        if partition is not None and not isinstance(window, TimeWindow) and names != set(partition):
            said = ", ".join(partition) or "nothing"
            raise self.scope.error(
                "SQL-WINDOW-KEY", f"the window is PARTITION BY {said}, GROUP BY has {', '.join(sorted(names)) or 'no key'}", node
            )
        return window


def group_function(node: exp.Expr, scope: Scope) -> GroupFunction:
    """An aggregate as the engine's, FILTER and DISTINCT in it. Raises SqlError."""
    where = None
    called: exp.Expr = node
    if isinstance(node, exp.Filter):
        called, where = node.this, bound(node.expression.this, scope.with_hook(None))
    assert isinstance(called, exp.Anonymous)
    name = called.name.lower()
    given = list(called.expressions)
    inner = scope.with_hook(None)
    for each in given:
        if has_aggregate(each, scope):
            raise scope.error(
                "SQL-AGGREGATE", f"{called.sql()}, an aggregate of an aggregate", each, "a subquery that computes the inner one"
            )
    own = scope.catalog.find(name)
    if isinstance(own, NamedFunction) and own.aggregate:
        return _user_function(own, called, given, where, inner)
    return _known_function(name, called, given, where, inner)


def _user_function(own: NamedFunction, called: exp.Anonymous, given: list[exp.Expr], where: Expr | None, scope: Scope) -> GroupFunction:
    columns = [bound(each, scope) for each in given]
    if where is not None or not all(isinstance(each, ColumnRef) for each in columns) or not columns:
        raise scope.error("SQL-FUNCTION", f"{called.sql()}: a user's aggregate takes columns", called, "a subquery that computes them")
    return UserFunction(
        own.reference, arguments=tuple(each.name for each in columns if isinstance(each, ColumnRef)), type=own.type, nullable=True
    )


def _known_function(name: str, called: exp.Anonymous, given: list[exp.Expr], where: Expr | None, scope: Scope) -> GroupFunction:
    if len(given) == 1 and isinstance(given[0], exp.Distinct):
        if name not in ("count", "min", "max"):
            raise scope.error("SQL-DISTINCT", f"{name}(DISTINCT …)", called)
        given = list(given[0].expressions)
        name = "count_distinct" if name == "count" else name
    if name == "count" and (not given or (len(given) == 1 and isinstance(given[0], exp.Star))):
        return aggregates.count() if where is None else aggregates.count(when(where, 1))
    if name == "count_distinct":
        return _distinct(called, given, where, scope)
    function = AGGREGATES[name]
    if not function.fewest <= len(given) <= function.most:
        takes = function.fewest if function.fewest == function.most else f"{function.fewest} or {function.most}"
        near = meant(name + "s", AGGREGATES) if len(given) > function.most else ""
        raise scope.error("SQL-FUNCTION", f"{name} takes {takes} arguments, got {len(given)}{near}", called)
    if where is not None and function.filtered is None:
        raise scope.error("SQL-FILTER", f"{name} with FILTER", called)
    args = [bound(each, scope) for each in given]
    if where is not None and function.filtered is not None:
        args[function.filtered] = when(where, args[function.filtered])
    try:
        return function.make(args)
    except QueryError as error:
        raise scope.error("SQL-FUNCTION", error.message, called) from None


def _distinct(called: exp.Anonymous, given: list[exp.Expr], where: Expr | None, scope: Scope) -> GroupFunction:
    if len(given) != 1:
        raise scope.error("SQL-DISTINCT", f"count(DISTINCT …) of {len(given)} columns", called, "count(DISTINCT hash(a, b))")
    arg = bound(given[0], scope)
    arg = arg if where is None else when(where, arg)
    return aggregates.count_distinct(arg.name if isinstance(arg, ColumnRef) else arg)


def _written(function: GroupFunction) -> str:
    if isinstance(function, Computed):
        return f"{function.name} {function.parameters} {[expressions.to_json(each) for each in function.expressions]}"
    return repr(function)
