"""Users' functions in queries: `udf(features.score, returns="float64")(col("a"), col("b"))`. How to: docs/custom_functions.md."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

from cep.errors import QueryError
from cep.model.expr import Expr, Udf, as_expr
from cep.model.functions import UserFunction
from cep.model.references import split_reference
from cep.model.schema import parse_type
from driver.builder.own_functions import registered


def udf(function: str | Callable[..., Any], returns: object = None) -> Callable[..., Expr]:
    """A function that is called for each row: `udf(f)(col("a"), 2)` is an expression.

    Args:
        function: of a module that the cluster was started with, itself or as "module:name"; or one given to
            `LocalCluster(functions=[...])`.
        returns: its type, such as `float`, `"float64?"`; None: what its annotation says.

    Raises:
        QueryError: no other process could find the function; says what to do.
    """
    reference = reference_of(function)
    type_, nullable = parse_type(_annotated(function) if returns is None else returns)
    return lambda *args: Udf(reference, tuple(map(as_expr, args)), type_, nullable)


def aggregate_function(function: str | type, *columns: str, returns: object) -> UserFunction:
    """A class with `init() -> state`, `add(state, *values) -> state` and `result(state) -> value`, for `Query.aggregate`.

    Args:
        function: the class, or "module:Class"; see `udf` for where it may be.
        columns: whose values `add` gets, row by row in stream order; rows in which one is NULL do not count.
        returns: what `result` returns; where it fails the answer has NULL.
    """
    if not columns:
        raise QueryError(f"aggregate function {function!r}: expected at least one column")
    type_, nullable = parse_type(returns)
    return UserFunction(reference_of(function), arguments=columns, type=type_, nullable=nullable)


def _annotated(function: str | Callable[..., Any]) -> object:
    found = None if isinstance(function, str) else typing.get_type_hints(getattr(function, "py_func", function)).get("return")
    if found is None:
        raise QueryError(f"function {function!r}: say what it returns, such as returns='float64?'")
    return found


def reference_of(function: str | Callable[..., Any]) -> str:
    """The reference of a function or class, "module:name". Raises QueryError where no other process could find it; says what to do."""
    if isinstance(function, str):
        split_reference(function)
        return function
    known = registered(function)
    if known is not None:
        return known
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not callable(function) or not isinstance(module, str) or not isinstance(name, str):
        raise QueryError(f"expected a function or 'module:name', got {function!r}")
    if "<" in name or module == "__main__":
        raise QueryError(_where_to(name))
    return f"{module}:{name}"


def _where_to(name: str) -> str:
    """What to do with a function that only this process knows."""
    what = "a lambda has no name" if "<lambda>" in name else f"function {name.rpartition('.')[2]!r} is known to this process only"
    name = "f" if "<lambda>" in name else name.rpartition(".")[2]
    return (
        f"{what}: a query names its functions, and the cluster's processes import them. Give it to the cluster before you build the "
        f"query: `with LocalCluster(functions=[{name}]) as cluster: ...`; or define it with def at the top of a file such as "
        f"features.py, import it from there, and start the cluster with LocalCluster(modules=['features']) or `cep up --module features`"
    )
