"""Every tuple with what trailing windows make of those before it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cep.errors import QueryError, escaped
from cep.model.checked import check_fields
from cep.model.contract import phrases
from cep.model.contract.columns import check_columns, schema_of
from cep.model.contract.forms import BY, FUNCTIONS, SPAN, TEXT, TRAILING_WINDOW, Form, optional
from cep.model.contract.operator import Wanted
from cep.model.duration import format_duration
from cep.model.functions import Function, UserFunction
from cep.model.operators.aggregate import result_of
from cep.model.operators.deduplicate import InTurn
from cep.model.schema import Field, Schema
from cep.model.windows import TrailingWindow


@dataclass(frozen=True)
class Over(InTurn):
    """Each tuple, and behind its columns one field per function of its trailing window: SQL's OVER (PARTITION BY `by` ORDER BY event time).

    A group that no tuple touched for more than `ttl` µs begins anew.
    """

    name: str
    input: str
    window: TrailingWindow
    by: tuple[str, ...]
    functions: tuple[tuple[str, Function], ...]
    ttl: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        self.check_ttl()

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"input": TEXT, "window": TRAILING_WINDOW, "by": BY, "functions": FUNCTIONS, "ttl": optional(SPAN)}

    def explained(self) -> str:
        called = ", ".join(f"{name} = {phrases.function(function)}" for name, function in self.functions)
        ttl = "" if self.ttl is None else f", ttl {format_duration(self.ttl)}"
        return f"over {phrases.window(self.window)}{phrases.by(self.by)}{ttl}: {called}"

    def output_schema(self, *inputs: Schema) -> Schema:
        schema = inputs[0]
        check_columns(self.name, "by", self.by, schema)
        if not self.functions:
            raise QueryError(f"operator {self.name!r}: expected at least one function", "/functions")
        made = tuple(self._result(name, function, schema) for name, function in self.functions)
        return schema_of(self.name, schema.fields + made, "/functions")

    def _result(self, name: str, function: Function, schema: Schema) -> Field:
        where, pointer = f"operator {self.name!r}, field {name!r}", f"/functions/{escaped(name)}"
        if isinstance(function, UserFunction):
            raise QueryError(
                f"{where}: a user's function has no state that merges; it would get all rows of a window anew for each tuple", pointer
            )
        if function.name in ("window_start", "window_end"):
            raise QueryError(f"{where}: a trailing window has no {function.name}: it ends with the tuple that it is of", pointer)
        if name in schema:
            raise QueryError(f"{where}: the input has a column of that name", pointer)
        return result_of(function, name, schema, where, pointer)

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return {*self.by, *(column for _, function in self.functions for column in function.columns), *wanted(names)}

    def passes(self, column: str) -> tuple[str, ...] | None:
        return None if column in dict(self.functions) else (column,)
