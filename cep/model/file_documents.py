"""Documents of files, read or written: one class for each format, whose fields are its options. Reading a document, writing it and its JSON
Schema follow from the class, so a new format is a class in the table of its side (`cep.model.streams`, `cep.model.sinks`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

from cep.errors import QueryError, escaped, meant
from cep.model.schema import DataType


class AnyType:
    """Files that hold values of every type."""

    __slots__ = ()

    def refuses(self, type_: DataType) -> str:
        return ""


_STRINGS = tuple[str, ...]
_JSON = {str: "string", bool: "boolean", int: "integer"}


def to_json(files: Any) -> dict[str, Any]:
    options = {key: getattr(files, key) for key in _kinds(type(files))}
    return {"format": files.format} | {key: list(value) if isinstance(value, tuple) else value for key, value in options.items()}


def from_json(document: Any, formats: Mapping[str, Any], pointer: str) -> Any:
    """One of the classes `formats`, by name; the first where none is named. Raises QueryError."""
    if not isinstance(document, dict):
        raise QueryError(f'expected {{"format": one of {", ".join(formats)}, ...}}, got {document!r}', pointer)
    format_ = document.get("format", next(iter(formats)))
    if not isinstance(format_, str) or format_ not in formats:
        expected = f"one of {', '.join(formats)}"
        raise QueryError(f"format: expected {expected}, got {format_!r}{meant(format_, formats)}", f"{pointer}/format")
    cls = formats[format_]
    given = {key: value for key, value in document.items() if key != "format"}
    _check(given, cls, pointer)
    try:
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in given.items()})
    except QueryError as error:
        raise error.under(pointer) from None


def _check(given: Mapping[str, Any], cls: Any, pointer: str) -> None:
    kinds = _kinds(cls)
    for key, value in given.items():
        if key not in kinds:
            known = f"files of {cls.format} have {', '.join(kinds)}"
            raise QueryError(f"unknown key {key!r}{meant(key, kinds)}; {known}", f"{pointer}/{escaped(key)}")
        if kinds[key] == _STRINGS:
            if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
                raise QueryError(f"{key}: expected a list of texts, got {value!r}", f"{pointer}/{key}")
        elif type(value) is not kinds[key]:
            raise QueryError(f"{key}: expected {kinds[key].__name__}, got {value!r}", f"{pointer}/{key}")
    for key in needed(cls):
        if key not in given:
            raise QueryError(f"{key}: missing; files of {cls.format} have {', '.join(kinds)}", pointer)


def _kinds(cls: Any) -> dict[str, Any]:
    """The types of the options of a format."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def needed(cls: Any) -> list[str]:
    return [field.name for field in fields(cls) if field.default is MISSING]


def schema(cls: Any, first: bool) -> dict[str, Any]:
    """The JSON Schema of its documents; `first`: without a format they are of this one."""
    properties = {key: _schema_of(kind) for key, kind in _kinds(cls).items()}
    required = needed(cls) if first else ["format", *needed(cls)]
    documented = {"description": " ".join((cls.__doc__ or "").split()), "additionalProperties": False}
    return {"type": "object", "properties": {"format": {"const": cls.format}, **properties}, "required": required, **documented}


def _schema_of(kind: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "minItems": 1} if kind == _STRINGS else {"type": _JSON[kind]}


def check_separator(separator: str) -> None:
    if len(separator) != 1 or not separator.isascii() or separator in "\r\n":
        raise QueryError(f"separator: expected one ASCII character, got {separator!r}", "/separator")
