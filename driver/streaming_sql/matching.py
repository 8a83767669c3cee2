"""MATCH_RECOGNIZE becomes a Pattern. Names of variables stand for their rows: `A.v` is of the last one so far, as in SQL:2016."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from cep.errors import QueryError, counted, meant
from cep.model.expr import ColumnRef, Expr, RowRef
from cep.model.operators import Pattern
from cep.model.operators.pattern_ways import ALL_ROWS, MATCH_NUMBER, NOT_SAID, ONE, TIMED_OUT, UNMATCHED, VARIABLE
from cep.model.patterns.checks import ALL
from cep.model.patterns.parts import Definition
from cep.model.patterns.refs import of_match, of_prev, typed_over
from cep.model.patterns.rows import prev, prevs_read, row, rows_read
from cep.model.schema import BOOL, DataType
from driver.streaming_sql.binding import QueryBinding
from driver.streaming_sql.building import of_row
from driver.streaming_sql.errors import SqlError
from driver.streaming_sql.expressions import bind
from driver.streaming_sql.functions import constant
from driver.streaming_sql.match_syntax import FINAL, MatchRecognize
from driver.streaming_sql.relation import Relation, SqlColumn
from driver.streaming_sql.scope import Scope
from driver.streaming_sql.spans import interval_us
from driver.streaming_sql.windows import check_event_time

_OF_ROWS = ("sum", "avg", "min", "max", "count")


def matched(binder: QueryBinding, node: MatchRecognize, relation: Relation) -> Relation:
    """The matches of a pattern in the rows of a relation. Raises SqlError."""
    scope = binder.scope(relation)
    if relation.running:
        raise scope.error("SQL-CHANGELOG-INPUT", "MATCH_RECOGNIZE reads running answers", node)
    if relation.rank is not None:
        raise scope.error("SQL-ROW-NUMBER", "a ROW_NUMBER has no bound", node)
    _check_order(node, scope)
    made = binder.building.materialised(relation, binder.text, scope.place(node))
    return _Matching(binder, node, binder.scope(made)).relation()


def _check_order(node: MatchRecognize, scope: Scope) -> None:
    order = node.args.get("order") or []
    if not order:
        raise scope.error("SQL-TIME", "MATCH_RECOGNIZE has no ORDER BY", node, "ORDER BY the event time")
    first, *more = order
    check_event_time(first.this, scope, f"ORDER BY {first.this.sql()}")
    if first.args.get("desc") or more:
        raise scope.error("SQL-ORDER", "a pattern is of rows as they come, in the order of event time", (more or [first])[0])


@dataclass(frozen=True)
class _Matching:
    binder: QueryBinding
    node: MatchRecognize
    scope: Scope

    @property
    def all_rows(self) -> bool:
        return bool(self.node.args["all_rows"])

    @property
    def branch(self) -> str:
        """What comes out in place of the matches; empty: they do."""
        return str(self.node.args["branch"])

    def relation(self) -> Relation:
        self._check_branch()
        args, place = self.node.args, self.scope.place(self.node)
        by = tuple(self._column(each) for each in args.get("partition_by") or [])
        define, measures, told = self._define(), self._measures(), self._told()
        within, ttl = args.get("within"), args.get("ttl")
        span = None if within is None else interval_us(within, self.scope.text)
        whole = self.all_rows or self.branch == UNMATCHED
        how = (span, self._ttl(ttl, span), args["matches"], self._after(), measures, ALL_ROWS if whole else ONE)
        building = self.binder.building
        at = building.add(
            "match",
            lambda name: Pattern(name, (self.scope.relation.at,), define, args["part"], by, *how, unmatched=self.branch == UNMATCHED),
            self.scope.text,
            place,
        )
        at = building.branched(at, self.branch) if self.branch else at
        schema = building.schemas[at]
        hidden = (MATCH_NUMBER, VARIABLE) if self.all_rows else ()
        columns = [SqlColumn(name, ColumnRef(name)) for name in schema.names if name not in hidden]
        columns += [SqlColumn(name, ColumnRef(VARIABLE if what == "classifier" else MATCH_NUMBER)) for name, what in told]
        if self.all_rows:
            columns.sort(key=self._place(by))
        alias = args.get("alias")
        return Relation(at, schema, tuple(columns)).named(alias.name if alias is not None else "")

    def _place(self, by: tuple[str, ...]) -> Callable[[SqlColumn], int]:
        """Of a column of all rows, as SQL:2016 has it: those of PARTITION BY, of ORDER BY, measures, the others."""
        measures = (each.alias for each in self.node.args.get("measures") or [])
        names = list(dict.fromkeys((*by, self._column(self.node.args["order"][0].this), *measures)))
        return lambda column: names.index(column.name) if column.name in names else len(names)

    def _check_branch(self) -> None:
        args, written = self.node.args, self.branch.upper().replace("_", " ")
        if self.branch and self.all_rows:
            raise self.scope.error("SQL-PATTERN", f"{written}, and ALL ROWS PER MATCH: one thing comes out", self.node, "one of them")
        if self.branch == TIMED_OUT and args["matches"] == ALL:
            raise self.scope.error("SQL-PATTERN", "with ALL MATCHES every match comes out, so none is TIMED OUT", self.node, "one of them")
        if self.branch == UNMATCHED and args.get("measures"):
            raise self.scope.error("SQL-PATTERN", "rows of no match have no MEASURES", args["measures"][0], "their columns, behind SELECT")

    def _column(self, node: exp.Expr) -> str:
        if not isinstance(node, exp.Column):
            said = f"PARTITION BY {node.sql()}: expected a column"
            raise self.scope.error("SQL-PATTERN", said, node, "a subquery in FROM that computes it")
        found = self.scope.value(node)
        assert isinstance(found, ColumnRef)
        return found.name

    def _ttl(self, said: exp.Expr | bool | None, within: int | None) -> int | None:
        if isinstance(said, exp.Interval):
            return interval_us(said, self.scope.text)
        if said is False:
            return None
        if within is not None:
            return NOT_SAID
        kept = self.binder.settings.state_ttl
        if kept is None:
            instead = "WITHIN INTERVAL … behind PATTERN (…), TTL INTERVAL …, NO TTL, or SET state_ttl = '1 d'"
            raise self.scope.error("SQL-PATTERN", "nothing says how long a match may take", self.node, instead)
        return kept

    def _after(self) -> str:
        where, _, name = self.node.args["after"].partition(" ")
        return f"{where} {self._variable(name)}" if name else where

    # --- DEFINE ---

    def _define(self) -> tuple[tuple[str, Definition], ...]:
        """In the order in which variables are written in the pattern; one that is not defined is any row."""
        given = {each.alias.casefold(): each for each in self.node.args.get("define") or []}
        if len(given) < len(self.node.args.get("define") or []):
            twice = next(each for each in self.node.args["define"] if given[each.alias.casefold()] is not each)
            raise self.scope.error("SQL-PATTERN", f"variable {twice.alias!r} is defined twice", twice, "one condition with AND")
        for each in given.values():
            if not self._known(each.alias):
                near = meant(each.alias, self._variables)
                said = f"variable {each.alias!r} is not in the pattern{near}"
                raise self.scope.error("SQL-PATTERN", said, each, f"one of {', '.join(self._variables)}")
        return tuple((name, self._definition(name, given.get(name.casefold()))) for name in self._variables)

    def _definition(self, name: str, node: exp.Expr | None) -> Definition:
        if node is None:
            return Definition()
        condition = self._bound(node.this, _Reading(self, name))
        if typed_over(condition, self.scope.relation.schema).type != BOOL:
            raise self.scope.error("SQL-TYPE", f"DEFINE {name} takes a BOOLEAN, got {node.this.sql()}", node.this, f"{name} AS v > 1")
        return Definition(condition)

    @property
    def _variables(self) -> Mapping[str, int]:
        places: Mapping[str, int] = self.node.args["places"]
        return places

    def _known(self, name: str) -> str:
        """As the pattern spells it; empty: it has no such variable."""
        return next((each for each in self._variables if each.casefold() == name.casefold()), "")

    def _variable(self, name: str) -> str:
        found = self._known(name)
        if not found:
            instead = f"one of {', '.join(self._variables)}"
            raise self.scope.error("SQL-PATTERN", f"variable {name!r} is not in the pattern", self.node, instead)
        return found

    # --- MEASURES ---

    def _measures(self) -> tuple[tuple[str, Expr], ...]:
        reading = _Reading(self, None, final=not self.all_rows)
        measures = self.node.args.get("measures") or []
        return tuple((each.alias, self._bound(each.this, reading)) for each in measures if _told(each) is None)

    def _told(self) -> list[tuple[str, str]]:
        """CLASSIFIER() and MATCH_NUMBER(), by their names."""
        found = []
        for each in self.node.args.get("measures") or []:
            if (told := _told(each)) is not None:
                if not self.all_rows:
                    raise self.scope.error("SQL-PATTERN", f"{told.upper()}() is of one row of a match", each, "ALL ROWS PER MATCH")
                if each.this.meta.get(FINAL):
                    raise self.scope.error("SQL-PATTERN", f"FINAL {told.upper()}(): it is of each row", each, f"{told.upper()}()")
                found.append((each.alias, told))
        return found

    def _type_of(self, made: Expr) -> DataType | None:
        try:
            return typed_over(made, self.scope.relation.schema).type
        except QueryError:  # it is said with the whole
            return None

    def _bound(self, node: exp.Expr, reading: _Reading) -> Expr:
        try:
            made = bind(node, self.scope.with_hook(reading.read, self._type_of))
        except RecursionError:
            raise self.scope.error("SQL-DEPTH", "operations are too deep inside each other", node) from None
        try:
            typed_over(made, self.scope.relation.schema)
        except QueryError as error:
            message = error.message
            for ref in rows_read(made):
                message = message.replace(of_match(ref), _written(ref))
            for before in prevs_read(made):
                message = message.replace(of_prev(before), f"PREV({before.column}, {before.k})")
            raise self.scope.error("SQL-TYPE", message, node, "") from None
        return made


def _written(ref: RowRef) -> str:
    of = f"{ref.variable}.{ref.column or '*'}"
    if ref.function == "last":
        return f"LAST({of}, {ref.k})" if ref.k else of
    return f"{ref.function.upper()}({of})"


def _told(measure: exp.Expr) -> str | None:
    inner = measure.this
    name = inner.name.lower() if isinstance(inner, exp.Anonymous) else ""
    return name if name in ("classifier", "match_number") else None


@dataclass(frozen=True)
class _Reading:
    """What expressions read: of a condition of `variable`, or of a measure (None), which is `final`, of the whole match, where it says so
    or one row comes out."""

    matching: _Matching
    variable: str | None
    final: bool = False

    def read(self, node: exp.Expr) -> Expr | None:
        """A Hook."""
        if node.meta.get(FINAL) and not self.final:
            return bind(node, self.scope.with_hook(replace(self, final=True).read, self.matching._type_of))
        found = self._of_rows(node)
        if isinstance(found, RowRef) and self.variable is None and not self.final:
            said = f"{node.sql()} with ALL ROWS PER MATCH is of the rows so far"
            raise self.scope.error("SQL-PATTERN", said, node, f"FINAL {node.sql()}, of the whole match")
        return found

    def _of_rows(self, node: exp.Expr) -> Expr | None:
        if isinstance(node, exp.Column):
            return self._of_column(node)
        if isinstance(node, exp.Anonymous) and isinstance(node.this, str):
            name = node.name.lower()
            if name in ("first", "last"):
                return self._first_or_last(name, node)
            if name in _OF_ROWS and len(node.expressions) == 1 and self._variable_of(node.expressions[0]) is not None:
                return self._aggregate(name, node)
            if name in ("prev", "next", "classifier", "match_number"):
                return self._before(name, node)
        return None

    @property
    def scope(self) -> Scope:
        return self.matching.scope

    def _variable_of(self, node: exp.Expr) -> str | None:
        return (self.matching._known(node.table) or None) if isinstance(node, exp.Column) and node.table else None

    def _of_column(self, node: exp.Column) -> Expr | None:
        variable = self._variable_of(node)
        if variable is not None:
            return row(variable)[self._name(node)]
        if node.table and node.table.casefold() not in {each.of for each in self.scope.relation.columns}:
            raise self._no_variable(node)
        if self.variable is None:
            name = list(self.matching._variables)[-1]
            said, instead = f"{node.sql()} is of no one row of the match", f"{name}.{node.name}, of the last row of {name}"
            raise self.scope.error("SQL-PATTERN", said, node, f"{instead}; columns of PARTITION BY come out by themselves")
        return None

    def _no_variable(self, node: exp.Column) -> SqlError:
        names = list(self.matching._variables)
        return self.scope.error(
            "SQL-PATTERN", f"there is no variable {node.table!r}{meant(node.table, names)}", node, f"one of {', '.join(names)}"
        )

    def _name(self, node: exp.Column) -> str:
        """The input's column that `A.v`, or `v`, is of."""
        plain = exp.Column(this=node.this.copy())
        plain._meta = dict(node.meta)
        found = of_row(self.scope.column(plain), self.scope.text, self.scope.place(node))
        assert isinstance(found, ColumnRef)
        return found.name

    def _first_or_last(self, name: str, node: exp.Anonymous) -> Expr:
        """FIRST(A.v), LAST(A.v), LAST(A.v, k): the k-th before the last."""
        given = node.expressions
        variable = self._variable_of(given[0]) if given else None
        if variable is None or len(given) > (2 if name == "last" else 1):
            instead = "FIRST(A.v)" if name == "first" else "LAST(A.v) or LAST(A.v, 1), the last but one"
            raise self.scope.error("SQL-FUNCTION", f"{node.sql()}: {name} takes a column of a variable", node, instead)
        column = self._name(given[0])
        if name == "first":
            return row(variable).first(column)
        return self._counted(node, lambda k: row(variable).last(column, k), 0)

    def _aggregate(self, name: str, node: exp.Anonymous) -> Expr:
        (of,) = node.expressions
        variable = self._variable_of(of)
        assert variable is not None
        if name == "count":
            if not isinstance(of.this, exp.Star):
                raise self.scope.error("SQL-FUNCTION", f"{node.sql()}: count is of rows", node, f"COUNT({variable}.*)")
            return row(variable).count()
        return RowRef(variable, name, self._name(of))

    def _before(self, name: str, node: exp.Anonymous) -> Expr:
        """PREV(v), PREV(v, k): of the row at hand, whichever variable's it would be."""
        if name != "prev" or self.variable is None:
            said = "NEXT asks for a row that has not come" if name == "next" else f"there is no {node.sql()} here"
            raise self.scope.error("SQL-FUNCTION", said, node, "PREV(v) in DEFINE; of a later row, the condition of a later variable")
        of = node.expressions[0] if node.expressions else None
        variable = self._variable_of(of) if of is not None else None
        if not isinstance(of, exp.Column) or variable not in (None, self.variable):
            raise self.scope.error("SQL-FUNCTION", f"{node.sql()}: PREV is of a column of the row at hand", node, "PREV(v) or PREV(v, 2)")
        column = self._name(of)
        return self._counted(node, lambda k: prev(column, k), 1)

    def _counted(self, node: exp.Anonymous, make: Callable[[int], Expr], default: int) -> Expr:
        if len(node.expressions) > 2:
            raise self.scope.error("SQL-FUNCTION", f"{node.sql()} has {counted(len(node.expressions), 'argument')}", node)
        try:
            k = constant(bind(node.expressions[1], self.scope), "how many rows before", int) if len(node.expressions) > 1 else default
            return make(int(k))
        except QueryError as error:
            raise self.scope.error("SQL-FUNCTION", error.message, node, "") from None
