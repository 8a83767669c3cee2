"""Functions of a script or a notebook, made into a module that the processes of a local cluster can import.

Their source is copied, with imports of the modules and the plain constants that they use. What cannot be copied is said at once.
"""

from __future__ import annotations

import builtins
import inspect
import symtable
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

from cep.errors import QueryError

#: The module that they become.
MODULE = "local_functions"

SOURCE_MAX = 100_000  # bytes; it is a word on a command line
_HEAD = '"""Functions of a script or notebook, as LocalCluster(functions=[...]) was given them."""\n\nfrom __future__ import annotations\n'
_CONSTANTS = (bool, int, float, str, bytes, type(None))

_references: list[tuple[Any, str]] = []


def register_functions(functions: Iterable[Any]) -> None:
    """From now on queries may name these functions: they are in the module of a cluster that runs."""
    _references.extend((function, f"{MODULE}:{function.__name__}") for function in functions)


def forget(functions: Sequence[Any]) -> None:
    """Their cluster is gone."""
    _references[:] = [each for each in _references if not any(each[0] is function for function in functions)]


def registered(function: Any) -> str | None:
    """The reference of a function that a cluster was given."""
    return next((reference for known, reference in reversed(_references) if known is function), None)


def module_source(functions: Sequence[Any]) -> str:
    """The module with `functions` (and classes) in it. Raises QueryError: a function cannot be copied; says which, why and what to do."""
    names = [_name(function) for function in functions]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise QueryError(f"functions: two are named {name!r}; give one of them another name")
    sources = [_source(function) for function in functions]
    lines: dict[str, None] = {}
    for function, source in zip(functions, sources, strict=True):
        lines |= dict.fromkeys(_line(function, name) for name in sorted(_free_names(source) - set(names)))
    whole = "\n".join([_HEAD, *lines, "", "", "\n\n\n".join(sources)])
    if len(whole.encode()) > SOURCE_MAX:
        raise QueryError(f"functions: {len(whole)} characters of source are too many for a notebook's functions; {_MODULE_INSTEAD}")
    return whole


_MODULE_INSTEAD = "put them into a file such as features.py and start LocalCluster(modules=['features'])"


def _name(function: Any) -> str:
    name = getattr(function, "__name__", None)
    if not isinstance(name, str) or not callable(function):
        raise QueryError(f"functions: expected functions or classes, got {function!r}")
    if name == "<lambda>":
        raise QueryError("functions: a lambda has no name by which a query could call it; define it with def")
    return name


def _source(function: Any) -> str:
    plain = getattr(function, "py_func", function)  # below Numba's decorator
    free = plain.__code__.co_freevars if inspect.isfunction(plain) else ()
    if free:
        raise QueryError(
            f"function {function.__name__!r} uses {', '.join(map(repr, free))} of the function it is defined in, which no other "
            f"process can see: make it an argument"
        )
    try:
        return textwrap.dedent(inspect.getsource(plain)).strip() + "\n"
    except (OSError, TypeError):
        raise QueryError(f"function {function.__name__!r}: Python does not know its source; {_MODULE_INSTEAD}") from None


def _free_names(source: str) -> set[str]:
    """What it takes from the module around it."""
    return set(_global_names(symtable.symtable(source, "<function>", "exec"))) - set(dir(builtins))


def _global_names(table: symtable.SymbolTable) -> Iterator[str]:
    yield from (symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced())
    for child in table.get_children():
        yield from _global_names(child)


def _line(function: Any, name: str) -> str:
    """The line that makes `name` be in the module what it is for `function`. Raises QueryError where there is none."""
    plain = getattr(function, "py_func", function)
    around = plain.__globals__ if inspect.isfunction(plain) else vars(sys.modules[plain.__module__])
    if name not in around:
        raise QueryError(f"function {function.__name__!r} uses {name!r}, which is not defined")
    value = around[name]
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    if isinstance(value, _CONSTANTS):
        return f"{name} = {value!r}"
    module, qualname = getattr(value, "__module__", None), getattr(value, "__qualname__", name)
    if module in sys.modules and module != "__main__" and getattr(sys.modules[module], qualname, None) is value:
        return f"from {module} import {qualname} as {name}"
    if callable(value):
        raise QueryError(f"function {function.__name__!r} uses {name!r} of this script: give it along, functions=[..., {name}]")
    raise QueryError(
        f"function {function.__name__!r} uses the variable {name!r} ({type(value).__name__}), which the processes of a cluster cannot "
        f"see: make it an argument, or {_MODULE_INSTEAD}"
    )
