"""Documents with something wrong in them: a valid one, some of whose parts are others."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

#: What stands where something else is expected: every type, bounds, names that mean something, and what other formats choke on.
PARTS: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 5.5, 1e308, 2**63, 2**64 - 1, -(2**63), [], [[]], {}, {"a": 1}, [1, 2], ["ip", "ip"]),
    *("", "a", "*", "\0", "é" * 300, "x" * 5000, "\n", "'", '"', "\\", "%s", "{}", "(", "~0", "../..", "\ud7ff", "1" * 5000),
    *("ip", "ts", "page_views", "a.b", "SQ1", "__time", "aggregate", "count", "time", "int64", "list<int64>", "string?", "timestamp[ns]"),
    *("1s", "-1s", "9999999999d", "1e400s", "1" * 400 + "s", "nan", "AAAA", "/", "/\0", "/etc/*", "/tmp/**", "relative"),
    *({"column": "ip"}, {"literal": 2**63, "type": "int64"}, {"literal": 5000, "type": "timestamp"}, {"literal": "x", "type": "binary"}),
    *({"op": "+", "args": [1, 2]}, {"call": "now", "args": []}, {"cast": {"column": "ip"}, "to": "int32"}),
    {"udf": "a:b", "args": [], "returns": "int64"},
)
_Path = tuple[Any, ...]


def mutated(document: Any, random: Random) -> Any:
    """The document with one to three things replaced, removed, added, or taken from elsewhere in it."""
    made = copy.deepcopy(document)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        places = [path for path in _paths(made) if path]
        if places:
            _mutate(made, random.choice(places), random.choice(places), random)
    return made


def _mutate(document: Any, place: _Path, other: _Path, random: Random) -> None:
    within, part = _at(document, place[:-1]), copy.deepcopy(random.choice(PARTS))
    match random.randrange(10):
        case 0:
            del within[place[-1]]
        case 1 if isinstance(within, dict):
            within[str(random.choice(PARTS))[:60]] = part
        case 1:
            within.append(part)
        case 2:
            within[place[-1]] = copy.deepcopy(_at(document, other))
        case _:
            within[place[-1]] = part


def _at(document: Any, path: _Path) -> Any:
    for step in path:
        document = document[step]
    return document


def _paths(value: Any, path: _Path = ()) -> Iterator[_Path]:
    yield path
    for step, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _paths(inner, (*path, step))
