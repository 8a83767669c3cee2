"""Documents and rows that come from outside, as values: one door, behind which there is nothing that a later step chokes on.

A value is made of null, bools, numbers that are finite and of 64 bits, texts that UTF-8 can write, lists, and objects with texts as keys,
each once. Python lets no other thread run while it reads a piece of JSON, so a list, which may be long, is read element by element.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

from cep.service.yaml_documents import DEPTH_MAX, load_yaml, load_yaml_documents

DOCUMENT_BYTES_MAX = 1 << 20
"""Bytes of a JSON document, and of one element of a list: a query must fit into a node of ZooKeeper, which holds less."""

YAML_BYTES_MAX = 256 << 10
"""Bytes of a document in YAML, which takes some fifty times as long to read."""

LIST_BYTES_MAX, ELEMENTS_MAX = 4 << 20, 100_000
"""Bytes of many documents, or rows, in one request."""

_SPACE = re.compile(r"[ \t\n\r]*")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


class _Twice(Exception):
    """A key stands twice in an object."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Twice(next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1))
    return found


_DECODER = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_object)


def read_yaml(body: bytes) -> Any:
    """Raises ValueError: it is no YAML, or not made of what documents are made of."""
    return checked_document(load_yaml(_text(body)))


def read_yaml_documents(body: bytes) -> list[Any]:
    """Those that `---` separates. Raises ValueError, likewise."""
    return list(map(checked_document, load_yaml_documents(_text(body))))


def read_json(body: bytes) -> Any:
    """Raises ValueError: it is no JSON, too long, or not made of what documents are made of."""
    text = _text(body)
    begin = _past_space(text, 0)
    if text[begin : begin + 1] == "[":
        return _elements(text, begin + 1)
    value, end = _value(text, begin)
    return value if _past_space(text, end) == len(text) else _fail(text, end, "nothing more")


def checked_document(value: Any) -> Any:
    """The value, if it is one. Raises ValueError."""
    pending = [(value, 0)]
    while pending:
        each, depth = pending.pop()
        if isinstance(each, str):
            _check_text(each)
        elif isinstance(each, dict | list):
            if depth == DEPTH_MAX:
                raise ValueError(f"more than {DEPTH_MAX} lists and objects are in each other")
            pending += [(inner, depth + 1) for inner in (each.values() if isinstance(each, dict) else each)]
            for key in each if isinstance(each, dict) else ():
                _check_key(key)
        elif each is not None:
            _check_number(each)
    return value


def _elements(text: str, position: int) -> list[Any]:
    found: list[Any] = []
    position = _past_space(text, position)
    if text[position : position + 1] == "]":
        position += 1
    else:
        while True:
            element, position = _value(text, position)
            found.append(element)
            if len(found) > ELEMENTS_MAX:
                raise ValueError(f"a list of more than {ELEMENTS_MAX:,}; send several")
            position = _past_space(text, position)
            follows, position = text[position : position + 1], position + 1
            if follows == "]":
                break
            if follows != ",":
                _fail(text, position - 1, "',' or ']'")
            position = _past_space(text, position)
    return found if _past_space(text, position) == len(text) else _fail(text, position, "nothing more")


def _value(text: str, begin: int) -> tuple[Any, int]:
    """A value and its end."""
    try:
        value, end = _DECODER.raw_decode(text, begin)
    except RecursionError:
        raise ValueError(f"more than {DEPTH_MAX} lists and objects are in each other") from None
    except _Twice as error:
        raise json.JSONDecodeError(f"The key {str(error)[:100]!r} stands twice in an object of what begins here", text, begin) from None
    if end - begin > DOCUMENT_BYTES_MAX:
        raise ValueError(f"a document of {end - begin:,} characters, expected at most {DOCUMENT_BYTES_MAX:,}")
    return checked_document(value), end


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from None


def _past_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def _fail(text: str, position: int, expected: str) -> NoReturn:
    raise json.JSONDecodeError(f"Expecting {expected}", text, position)


def _check_key(key: Any) -> None:
    if not isinstance(key, str):
        raise ValueError(f"the key {str(key)[:100]!r} is no text; write it in quotes")
    _check_text(key)


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{text[error.start]!r} is half a character, which no UTF-8 can write") from None


def _check_number(value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is infinite or none; a literal of such is written as text: 'inf', '-inf', 'nan'")
    if isinstance(value, int) and value.bit_length() > 64:
        raise ValueError(f"an integer has {value.bit_length():,} bits, expected at most 64")
    if not isinstance(value, bool | int | float):
        raise ValueError(f"expected what JSON can say too, got {type(value).__name__}")
