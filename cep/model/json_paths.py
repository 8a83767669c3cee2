"""Paths into JSON: `$` is the whole, `.name` and `["any name"]` what an object has, `[0]` what an array has."""

from __future__ import annotations

import json
import re

STEPS_MAX = 64
_STEP = re.compile(r"""\.(?P<name>[^.\[\]"\s]+)|\[(?P<number>\d{1,9})\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]""")


def steps_of(path: str) -> tuple[str | int, ...]:
    """Names and numbers, from the outside in. Raises ValueError that says what was expected."""
    if not path.startswith("$"):
        raise ValueError('a path such as $.orders[0].price or $["any name"]')
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise ValueError(f'a path of .name, ["any name"] and [0]; behind {path[:at]!r} stands none of them')
        at = found.end()
        steps.append(int(found["number"]) if found["number"] is not None else found["name"] or _unquoted(found["quoted"]))
    if len(steps) > STEPS_MAX:
        raise ValueError(f"a path of at most {STEPS_MAX} steps")
    return tuple(steps)


def checked(path: object) -> str:
    """A path. Raises ValueError that says what was expected."""
    if not isinstance(path, str):
        raise ValueError("a path, a text")
    steps_of(path)
    return path


def _unquoted(text: str) -> str:
    try:
        name = str(json.loads(text))
        name.encode()
    except ValueError:
        raise ValueError(f"a name as JSON writes it, not {text}") from None
    return name
