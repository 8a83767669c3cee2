"""Where in a text something is wrong: what a pointer of a problem document means in the YAML, JSON or SQL that was sent. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

import yaml

JSON, YAML, SQL = "application/json", "application/yaml", "text/sql"
_SQL_STARTS = re.compile(r"\s*(--[^\n]*\n\s*)*(select|create|insert|with|set|explain)\b", re.IGNORECASE)
_AT = (re.compile(r"^SQL-[A-Z-]+ at (\d+):(\d+)"), re.compile(r"line (\d+),? column (\d+)"))


class TextPlace(NamedTuple):
    """From the offset `start` up to `end`; `line` counts from 1."""

    line: int
    start: int
    end: int


def kind_of(text: str) -> str:
    """What it is written in, by its first word."""
    if text.lstrip()[:1] in ("{", "["):
        return JSON
    return SQL if _SQL_STARTS.match(text) else YAML


def place_of(text: str, message: str, pointer: str) -> TextPlace | None:
    """None: it is the whole that is wrong, or it cannot be told."""
    found = _at_pointer(text, pointer) if pointer and kind_of(text) != SQL else None
    if found is not None:
        return _place(text, *found)
    for pattern in _AT:
        if (at := pattern.search(message)) is not None:
            line, column = int(at[1]), int(at[2])
            start = sum(len(each) for each in text.splitlines(keepends=True)[: line - 1]) + column - 1
            return _place(text, start, start + _word(text, start))
    return None


def _place(text: str, start: int, end: int) -> TextPlace:
    start = min(start, len(text))
    stop = text.find("\n", start)
    end = min(max(end, start), len(text), len(text) if stop < 0 else stop)
    return TextPlace(text.count("\n", 0, start) + 1, start, end)


def _word(text: str, start: int) -> int:
    found = re.match(r"\w+|\S", text[start:])
    return 0 if found is None else found.end()


def _at_pointer(text: str, pointer: str) -> tuple[int, int] | None:
    """The offsets of the deepest part of the pointer that is there."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return None
    if node is None:
        return None
    found = node.start_mark.index, node.start_mark.index
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, yaml.MappingNode):
            entry = next(((key, value) for key, value in node.value if getattr(key, "value", None) == name), None)
            if entry is None:
                break
            node = entry[1]
            marks = (entry[0].start_mark, entry[0].end_mark) if isinstance(node, yaml.CollectionNode) else (node.start_mark, node.end_mark)
        elif isinstance(node, yaml.SequenceNode) and name.isdecimal() and int(name) < len(node.value):
            node = node.value[int(name)]
            marks = node.start_mark, node.end_mark
        else:
            break
        found = marks[0].index, marks[1].index
    return found
