"""JSON objects as frozen dataclasses: every field is there and of its type, whole numbers fit into 64 bits, fractions are finite.

For documents that processes write for each other: what stands in ZooKeeper may have been written by anything. Documents of users have
readers of their own, whose errors point to the place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from cep.errors import ProtocolError
from cep.model.limits import COUNT_MAX, shown

T = TypeVar("T")
_Reader = Callable[[Any], Any]


class _Wrong(Exception):
    """`path` to a value that is not what was `expected`."""

    def __init__(self, expected: str, value: Any, path: tuple[str, ...] = ()) -> None:
        super().__init__(expected)
        self.expected, self.value, self.path = expected, value, path


def read_shape(shape: type[T], document: Any) -> T:
    """`document`, the JSON of a `shape`; keys that it does not know are a later version's. Raises ProtocolError, naming the field."""
    try:
        found: T = _reader(cast(Any, shape))(document)
    except _Wrong as wrong:
        where = ".".join((shape.__name__, *wrong.path))
        raise ProtocolError(f"{where}: expected {wrong.expected}, got {shown(wrong.value)}") from None
    return found


@cache
def _reader(hint: Any) -> _Reader:
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if origin in (Union, UnionType):
        (inner,) = (arg for arg in args if arg is not NoneType)
        within = _reader(inner)
        return lambda value: None if value is None else within(value)
    if isinstance(hint, type) and issubclass(hint, tuple) and (parts := get_type_hints(hint)):  # a NamedTuple
        pair = _pair(tuple(map(_reader, parts.values())))
        return lambda value: hint(*pair(value))
    if origin is tuple and args[1:] != (...,):
        return _pair(tuple(map(_reader, args)))
    if origin in (tuple, Sequence):
        return _list(_reader(args[0]))
    if origin in (dict, Mapping):
        return _mapping(_reader(args[1]))
    return _object(hint) if is_dataclass(hint) else _SCALARS[hint]


def _object(shape: Any) -> _Reader:
    hints = get_type_hints(shape)
    parts = [(f.name, _reader(hints[f.name]), f.default is MISSING and f.default_factory is MISSING) for f in fields(shape) if f.init]

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _Wrong("an object", value)
        found = {}
        for name, reader, needed in parts:
            if name in value:
                found[name] = _under(name, reader, value[name])
            elif needed:
                raise _Wrong(f"a field {name!r}", value)
        return shape(**found)

    return read


def _mapping(reader: _Reader) -> _Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _Wrong("an object", value)
        return {key: _under(key, reader, each) for key, each in value.items()}

    return read


def _list(reader: _Reader) -> _Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise _Wrong("a list", value)
        return tuple(_under(str(i), reader, each) for i, each in enumerate(value))

    return read


def _pair(readers: tuple[_Reader, ...]) -> _Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, list | tuple) or len(value) != len(readers):
            raise _Wrong(f"a list of {len(readers)}", value)
        return tuple(_under(str(i), reader, each) for i, (reader, each) in enumerate(zip(readers, value, strict=True)))

    return read


def _under(name: str, reader: _Reader, value: Any) -> Any:
    try:
        return reader(value)
    except _Wrong as wrong:
        raise _Wrong(wrong.expected, wrong.value, (name, *wrong.path)) from None


def _whole(value: Any) -> Any:
    if type(value) is not int or not -COUNT_MAX - 1 <= value <= COUNT_MAX:
        raise _Wrong("a whole number of 64 bits", value)
    return value


def _number(value: Any) -> Any:
    if type(value) is int and -COUNT_MAX - 1 <= value <= COUNT_MAX:
        return value
    if type(value) is not float or not math.isfinite(value):
        raise _Wrong("a finite number", value)
    return value


def _text(value: Any) -> Any:
    if type(value) is not str or (not value.isascii() and any("\ud800" <= sign <= "\udfff" for sign in value)):
        raise _Wrong("a text of Unicode", value)
    return value


def _flag(value: Any) -> Any:
    if type(value) is not bool:
        raise _Wrong("true or false", value)
    return value


_SCALARS: dict[Any, _Reader] = {int: _whole, float: _number, str: _text, bool: _flag}
