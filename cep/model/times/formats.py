"""Formats of instants as text: the directives that `format_time` writes and `parse_time` reads, always in UTC."""

from __future__ import annotations

import re
from functools import lru_cache

#: Year, month, day of the month, hour, minute, second, microsecond, day of the year.
DIRECTIVES = "YmdHMSfj"
#: What a directive is in a program of a format; what is less is a byte that is written as it is.
DIRECTIVE = 256
FORMAT_BYTES_MAX = 256


@lru_cache(maxsize=1024)
def program(text: str) -> tuple[int, ...]:
    """A format as a program: its bytes in UTF-8, and DIRECTIVE + the letter where a directive stands.

    Raises ValueError that says what was expected.
    """
    if len(text.encode()) > FORMAT_BYTES_MAX:
        raise ValueError(f"a format of at most {FORMAT_BYTES_MAX} bytes")
    made: list[int] = []
    for part in re.finditer("%(.?)|[^%]+", text, re.DOTALL):
        letter = part[1]
        if letter is None or letter == "%":
            made += (letter or part[0]).encode()
        elif letter and letter in DIRECTIVES:
            made.append(DIRECTIVE + ord(letter))
        else:
            raise ValueError(f"a format of {', '.join(f'%{known}' for known in DIRECTIVES)} and %%")
    return tuple(made)


def written(value: object) -> str:
    """A format that `format_time` takes. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError("a format such as '%Y-%m-%d'")
    program(value)
    return value


def read(value: object) -> str:
    """A format that says one instant, which `parse_time` takes. Raises ValueError."""
    text = written(value)
    letters = [chr(code - DIRECTIVE) for code in program(text) if code >= DIRECTIVE]
    if not letters:
        raise ValueError("a format with a directive, such as '%Y-%m-%d', since a text without says no instant")
    if len(set(letters)) < len(letters):
        raise ValueError("a format in which no directive stands twice")
    if "j" in letters and not {"m", "d"}.isdisjoint(letters):
        raise ValueError("a format with %j or with %m and %d, not both")
    return text
