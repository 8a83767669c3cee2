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
ERROR_TEXT_MAX = 1_000  # characters of an error


class Raised(Exception):
    """A user's code raised what is no Exception (SystemExit, KeyboardInterrupt, GeneratorExit): it ends that call, not the process."""


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


def called(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)`, which runs users' code: the one door to it. Whatever that raises is an Exception here."""
    try:
        return function(*arguments)
    except Exception:
        raise
    except BaseException as error:
        raise Raised(error_text(error)) from None


def error_text(error: BaseException, most: int = ERROR_TEXT_MAX) -> str:
    """The kind of an error and what it says, for a person: at most so many characters, which can be sent, whatever the error is made of."""
    if isinstance(error, Raised):
        return str(error)
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException as another:
        text = f"{type(error).__name__}, whose text cannot be had: {type(another).__name__}"
    return plain_text(text, most)


def plain_text(text: str, most: int) -> str:
    """At most so many characters of it, all of which UTF-8 has."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return cut.encode("utf-8", "backslashreplace").decode()


def resolve_function(reference: str) -> Callable[..., Any]:
    """The function, or the class, that "module:name" names. Raises QueryError: it may not run here, or is not there."""
    check_reference(reference, _allowed)
    module, name = split_reference(reference)
    try:
        found: Any = called(importlib.import_module, module)
    except Exception as error:  # anything that the module's own code may raise
        raise QueryError(f"function {reference!r}: module {module!r} cannot be imported: {error_text(error)}") from error
    for part in name.split("."):
        if not called(hasattr, found, part):
            raise QueryError(f"function {reference!r}: there is no {name!r} in module {module!r}")
        found = called(getattr, found, part)
    if not callable(found) or called(getattr, found, "__module__", None) != module:
        where = getattr(found, "__module__", None)
        other = f"; it is defined in {where!r}" if where is not None and where != module else ""
        raise QueryError(f"function {reference!r}: expected a function that module {module!r} defines, got {found!r}{other}")
    return found  # type: ignore[no-any-return]  # callable, as was seen


def check_callable_with(reference: str, function: Callable[..., Any], arguments: int) -> None:
    """Raises QueryError for a function that no call with so many arguments suits. One that does not say what it takes passes."""
    try:
        signature = called(inspect.signature, function)
    except (TypeError, ValueError, Raised):
        return
    try:
        signature.bind(*[None] * arguments)
    except TypeError as error:
        message = f"function {reference!r}{signature}: it is called with {arguments} argument{'s' * (arguments != 1)}: {error}"
        raise QueryError(message) from None


def call_text(reference: str, arguments: Sequence[object]) -> str:
    """A call for a message."""
    return plain_text(f"{reference.partition(':')[2]}({', '.join(map(repr, arguments))})", ARGUMENTS_TEXT_MAX)


def failure_text(reference: str, arguments: Sequence[object], error: BaseException) -> str:
    """What a dead letter says of a call that failed."""
    return f"{call_text(reference, arguments)}: {error_text(error)}"
