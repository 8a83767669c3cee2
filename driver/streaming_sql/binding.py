"""What the parts of a SELECT ask of whatever binds the whole: a query inside, what a name in FROM means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from sqlglot import exp

from driver.streaming_sql.building import Building
from driver.streaming_sql.catalog import SqlCatalog
from driver.streaming_sql.relation import Relation, SqlSettings
from driver.streaming_sql.scope import Scope


class QueryBinding(Protocol):
    """`driver.streaming_sql.binder.Binder`, as they see it."""

    @property
    def building(self) -> Building: ...
    @property
    def catalog(self) -> SqlCatalog: ...
    @property
    def settings(self) -> SqlSettings: ...
    @property
    def text(self) -> str: ...
    @property
    def ctes(self) -> Mapping[str, Any]: ...
    @property
    def nowhere(self) -> Scope: ...

    def scope(self, relation: Relation) -> Scope: ...

    def numbered(self, relation: Relation, node: exp.Expr) -> Relation: ...

    def table(self, node: exp.Expr) -> Relation: ...
