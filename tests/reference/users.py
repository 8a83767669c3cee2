"""Users' functions, called as docs/custom_functions.md says. What they raise, and what they return that was not declared, is Failed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from cep.model.expr import Udf
from cep.model.functions import UserFunction
from cep.model.schema import DataType
from tests.reference.rows import USER_FUNCTION, Failed
from tests.reference.values import INT32_MAX, INT32_MIN, fits_int64

_PYTHON = {"bool": bool, "string": str, "binary": bytes}


def function_named(name: str) -> Callable[..., Any]:
    """`"module:name"`."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def called(udf: Udf, args: Sequence[Any]) -> Any:
    """Not with a NULL."""
    if None in args:
        return None
    return _declared(lambda: function_named(udf.function)(*args), udf.type, udf.nullable)


def folded(function: UserFunction, rows: Sequence[Sequence[Any]]) -> Any:
    """Over `rows` of its arguments, in stream order; one with a NULL does not count."""

    def fold() -> Any:
        instance = function_named(function.name)()
        state = instance.init()
        for row in rows:
            state = state if None in row else instance.add(state, *row)
        return instance.result(state)

    return _declared(fold, function.type, function.nullable)


def _declared(compute: Callable[[], Any], type_: DataType, nullable: bool) -> Any:
    try:
        value = compute()
    except Exception:
        raise Failed(USER_FUNCTION) from None
    if not (nullable if value is None else _is_of(value, type_)):
        raise Failed(USER_FUNCTION)
    return float(value) if type_.name == "float64" and value is not None else value


def _is_of(value: Any, type_: DataType) -> bool:
    """An int is a float where one is declared, and a bool is neither."""
    if type_.name in _PYTHON:
        return isinstance(value, _PYTHON[type_.name])
    if isinstance(value, bool) or not isinstance(value, int):
        return type_.name == "float64" and isinstance(value, float)
    return INT32_MIN <= value <= INT32_MAX if type_.name == "int32" else type_.name == "float64" or fits_int64(value)
