"""Users' functions by name: "module:name", and whether a cluster knows the module (docs/custom_functions.md).

Only functions of the modules that a cluster was started with may run in it. The planner checks the names, and imports nothing;
a process that runs them imports the modules (`cep.compile.user.functions`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from cep.errors import QueryError

_REFERENCE = re.compile(r"((?:[^\W\d]\w*\.)*[^\W\d]\w*):((?:(?!__)[^\W\d]\w*\.)*(?!__)[^\W\d]\w*)")


def split_reference(reference: str, pointer: str = "") -> tuple[str, str]:
    """(module, name in it) of "module:name". Raises QueryError where it is none."""
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise QueryError(f"function {reference!r}: expected 'module:name', such as 'features:score'", pointer)
    return found[1], found[2]


def check_reference(reference: str, modules: Sequence[str], pointer: str = "") -> None:
    """Raises QueryError where `reference` is none, or its module is not one of those the cluster was started with."""
    module, _ = split_reference(reference, pointer)
    if module not in modules:
        known = ", ".join(modules) or "none"
        raise QueryError(
            f"function {reference!r}: this cluster was not started with module {module!r}, and runs functions of the modules it was "
            f"started with only ({known}); start it with `cep up --module {module}` or LocalCluster(modules=[{module!r}])",
            pointer,
        )


def check_references(document: dict[str, Any], modules: Sequence[str]) -> None:
    """Every function that the document of a query names. Raises QueryError that points at the first that may not run."""
    for reference, pointer in references_in(document):
        check_reference(reference, modules, pointer)


def references_in(document: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
    """(reference, where it stands) of every user's function in a JSON value: an Apply's, a StatefulMap's, an aggregate's, a call's."""
    if isinstance(document, dict):
        for key in ("udf", "function"):
            value = document.get(key)
            if isinstance(value, str) and (key == "udf" or ":" in value):  # the engine's own functions have no colon
                yield value, f"{pointer}/{key}"
    entries: Any = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for key, value in entries:
        step = str(key).replace("~", "~0").replace("/", "~1")
        yield from references_in(value, f"{pointer}/{step}")
