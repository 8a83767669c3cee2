"""Users' functions as objects: imported by name, from the modules that this process was started with and from no others.

`allow` is called once, when a process starts, with what its configuration says. A function is one that its module defines: what a
module has only imported (`os.system`) is none of its functions.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cep.errors import QueryError
from cep.model.references import check_reference, split_reference

_allowed: list[str] = []

ARGUMENTS_TEXT_MAX = 200  # characters of a call in a message


def allow(modules: Sequence[str], folders: Sequence[str] = ()) -> None:
    """From now on functions of `modules` may run here. They are found where Python finds modules, or else in `folders`."""
    _allowed[:] = modules
    sys.path.extend(folder for folder in folders if folder not in sys.path)


@contextmanager
def allowed(*modules: str) -> Iterator[None]:
    """Inside, functions of `modules` may run here, and of no others."""
    before = tuple(_allowed)
    _allowed[:] = modules
    try:
        yield
    finally:
        _allowed[:] = before


def resolve(reference: str) -> Callable[..., Any]:
    """The function, or the class, that "module:name" names. Raises QueryError: it may not run here, or is not there."""
    check_reference(reference, _allowed)
    module, name = split_reference(reference)
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:  # anything that the module's own code may raise
        raise QueryError(f"function {reference!r}: module {module!r} cannot be imported: {type(error).__name__}: {error}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise QueryError(f"function {reference!r}: there is no {name!r} in module {module!r}")
        found = getattr(found, part)
    if not callable(found) or getattr(found, "__module__", None) != module:
        where = getattr(found, "__module__", None)
        other = f"; it is defined in {where!r}" if where is not None and where != module else ""
        raise QueryError(f"function {reference!r}: expected a function that module {module!r} defines, got {found!r}{other}")
    return found  # type: ignore[no-any-return]  # callable, as was seen


def check_callable_with(reference: str, function: Callable[..., Any], arguments: int) -> None:
    """Raises QueryError for a function that no call with so many arguments suits. One that does not say what it takes passes."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*[None] * arguments)
    except TypeError as error:
        message = f"function {reference!r}{signature}: it is called with {arguments} argument{'s' * (arguments != 1)}: {error}"
        raise QueryError(message) from None


def call_text(reference: str, arguments: Sequence[object]) -> str:
    """A call for a message."""
    text = f"{reference.partition(':')[2]}({', '.join(map(repr, arguments))})"
    return text if len(text) <= ARGUMENTS_TEXT_MAX else text[: ARGUMENTS_TEXT_MAX - 1] + "…"


def failure_text(reference: str, arguments: Sequence[object], error: BaseException) -> str:
    """What a dead letter says of a call that failed."""
    return f"{call_text(reference, arguments)}: {type(error).__name__}: {error}"
