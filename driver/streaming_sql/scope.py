"""What names mean where an expression stands, and what is said where they mean nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from cep.errors import meant
from cep.model.expr import Expr
from cep.model.schema import DataType
from driver.streaming_sql.building import of_row
from driver.streaming_sql.catalog import SqlCatalog
from driver.streaming_sql.errors import SqlError
from driver.streaming_sql.places import start_of
from driver.streaming_sql.relation import RANK, ROWTIME, Relation, SqlColumn

_SAID = {
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
    "laterals": "LATERAL",
    "locks": "FOR UPDATE",
    "into": "SELECT INTO",
    "exclude": "EXCLUDE of a frame",
}

Hook = Callable[[exp.Expr], Expr | None]
Types = Callable[[Expr], DataType | None]


@dataclass(frozen=True)
class Scope:
    """Args:
    text: the statements, for places.
    hook: asked first for every node; what it answers stands for the node.
    types: of an expression over what a hook answers, its type, or None where that cannot be known yet.
    """

    relation: Relation
    catalog: SqlCatalog
    text: str
    hook: Hook | None = None
    types: Types | None = None

    def error(self, code: str, what: str, node: exp.Expr | None, instead: str | None = None) -> SqlError:
        return SqlError(code, what, self.text, self.place(node), instead)

    def place(self, node: exp.Expr | None) -> int:
        while node is not None:
            found = start_of(node)
            if found is not None:
                return found
            node = node.parent
        return 0

    def check_parts(self, node: exp.Expr, *known: str) -> None:
        """Raises SqlError: it has a part that is none of these; what is not understood is not left out."""
        for key, part in node.args.items():
            if part and key not in known:
                place = part[0] if isinstance(part, list) else part
                said = _SAID.get(key, key.rstrip("_").replace("_", " ").upper())
                raise self.error("SQL-EXPRESSION", f"there is no {said}", place if isinstance(place, exp.Expr) else node)

    def with_hook(self, hook: Hook | None, types: Types | None = None) -> Scope:
        return replace(self, hook=hook, types=types)

    def over(self, relation: Relation) -> Scope:
        return replace(self, relation=relation)

    def find(self, name: str, table: str = "") -> list[SqlColumn]:
        """The columns of this name; exactly spelled ones before those that differ by case."""
        found = [
            each for each in self.relation.columns if each.name.casefold() == name.casefold() and (not table or each.of == table.casefold())
        ]
        exact = [each for each in found if each.name == name]
        return exact if len(exact) == 1 else found

    def column(self, node: exp.Column) -> SqlColumn:
        """Raises SqlError: there is none, or there are several."""
        if node.args.get("db") is not None:
            raise self.error("SQL-STRUCT", f"{node.sql()} is a field of a row", node)
        name, table = node.name, node.table
        found = self.find(name, table)
        if len(found) == 1:
            return found[0]
        if found:
            owners = [each.of for each in found if each.of]
            instead = " or ".join(f"{owner}.{name}" for owner in owners) or "an AS for one of them"
            raise self.error("SQL-AMBIGUOUS", f"{name} may be of {', '.join(owners) or 'several'}", node, instead)
        if name.casefold() == ROWTIME:
            raise self.error("SQL-TIME", "rowtime names the event time, and has no value", node, "a column of the event time")
        raise self._no_column(node, name, table)

    def _no_column(self, node: exp.Column, name: str, table: str) -> SqlError:
        aliases = {each.of for each in self.relation.columns if each.of}
        if table and table.casefold() not in aliases:
            near = meant(table.casefold(), aliases)
            return self.error("SQL-COLUMN", f"nothing in FROM is called {table!r}{near}", node, f"one of {', '.join(sorted(aliases))}")
        names = [each.name for each in self.relation.columns if not table or each.of == table.casefold()]
        hint = ""
        if node.this.args.get("quoted"):
            hint = f"; \"{name}\" is a name, '{name}' a text"
        return self.error("SQL-COLUMN", f"there is no column {name!r}{meant(name, names)}{hint}", node, f"one of {', '.join(names)}")

    def value(self, node: exp.Column) -> Expr:
        """Raises SqlError: it is no column that a row has."""
        column = self.column(node)
        if column.kind == RANK and column.expr is None:
            raise self.error("SQL-ROW-NUMBER", f"{node.sql()} has no bound", node)
        return of_row(column, self.text, self.place(node))
