"""The files of an application: what they include, their variables, and which part of which file says what."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cep.errors import QueryError, escaped, meant
from cep.model.limits import check_name
from cep.service.yaml_documents import load_yaml

KEYS = ("application", "include", "variables", "streams", "queries", "sinks")
_VARIABLE = re.compile(r"(\$?)\$\{([^{}]*)\}")
Variable = str | int | float | bool


@dataclass(frozen=True, slots=True)
class ApplicationPart:
    """A stream, a query or a sink as a file says it. `pointer` leads to it in the file."""

    file: Path
    pointer: str
    document: Mapping[str, Any]

    def wrong(self, error: QueryError, below: str = "") -> QueryError:
        """The same error, seen from the file."""
        return _wrong(self.file, error.message, self.pointer + below + error.pointer)

    def path(self, name: str) -> Path:
        """A file that it names, which is looked for beside its own."""
        return self.file.parent / name

    def text(self, name: str) -> str:
        """What stands in such a file. Raises QueryError."""
        return str(_read(self.path(name), lambda path: path.read_text("utf-8-sig")))


@dataclass(frozen=True, slots=True)
class WrittenApplication:
    """An application as its files say it."""

    name: str
    streams: Mapping[str, ApplicationPart]
    queries: Mapping[str, ApplicationPart]
    sinks: Mapping[str, ApplicationPart]


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    document: Mapping[str, Any]

    def part(self, key: str, kind: type, of: str) -> Any:
        """What it says for a key; nothing: an empty one."""
        found = self.document.get(key)
        if found is None:
            return kind()
        if not isinstance(found, kind):
            raise _wrong(self.path, f"{key}: expected {of}, got {found!r}", f"/{key}")
        return found


def read_application(path: Path, variables: Mapping[str, Variable] | None = None) -> WrittenApplication:
    """`variables`: instead of the values that the files give them. Raises QueryError: which file is wrong, where, and why."""
    found: dict[Path, _File] = {}
    _add_with_included(path, (), found)
    files = list(found.values())
    main = files[-1]
    name = main.document.get("application")
    if not isinstance(name, str) or not name:
        raise _wrong(path, f"an application needs a name, such as `application: shop`; got {name!r}", "/application")
    try:
        check_name("an application", name, "/application")
    except QueryError as error:
        raise _wrong(path, error.message, error.pointer) from None
    values = _variables(files, variables or {})
    return WrittenApplication(name, *(_parts(files, key, values) for key in ("streams", "queries", "sinks")))


def _add_with_included(path: Path, within: tuple[Path, ...], files: dict[Path, _File]) -> None:
    """The files that it includes, and theirs, before it; each once, by however many ways one comes to it."""
    own = path.resolve()
    if own in within:
        raise _wrong(path, f"it includes itself, by {within[-1]}")
    if own in files:
        return
    document = _read(path, lambda path: load_yaml(path.read_text("utf-8-sig")))
    if not isinstance(document, dict):
        raise _wrong(path, f"expected a mapping with {', '.join(KEYS)}; got {type(document).__name__}")
    _check_keys(document, path, "")
    for key in document.keys() - set(KEYS):
        raise _wrong(path, f"unknown key {key!r}{meant(key, KEYS)}; an application has {', '.join(KEYS)}", f"/{escaped(key)}")
    if within and "application" in document:
        raise _wrong(path, "a file that is included names no application", "/application")
    file = _File(path, document)
    for i, included in enumerate(file.part("include", list, "a list of files")):
        if not isinstance(included, str):
            raise _wrong(path, f"expected the name of a file, got {included!r}", f"/include/{i}")
        _add_with_included(path.parent / included, (*within, own), files)
    files[own] = file


def _check_keys(value: Any, file: Path, pointer: str) -> None:
    """Raises QueryError: a key is no text."""
    if isinstance(value, dict):
        for key, each in value.items():
            if not isinstance(key, str):
                raise _wrong(file, f"the key {json.dumps(key)} is no text; write it in quotes", pointer)
            _check_keys(each, file, f"{pointer}/{escaped(key)}")
    elif isinstance(value, list):
        for i, each in enumerate(value):
            _check_keys(each, file, f"{pointer}/{i}")


def _variables(files: list[_File], given: Mapping[str, Variable]) -> Mapping[str, Variable]:
    """Those of a file count before those of files that it includes; those that are given, before all."""
    values: dict[str, Variable] = {}
    for file in files:
        for name, value in file.part("variables", dict, "a mapping from names to values").items():
            if not isinstance(value, Variable):
                why = f"variable {name!r}: expected a text, a number or a bool, got {value!r}"
                raise _wrong(file.path, why, f"/variables/{escaped(name)}")
            values[name] = value
    for name in given:
        if name not in values:
            there = ", ".join(values) or "none"
            raise QueryError(f"there is no variable {name!r}{meant(name, values)}; {files[-1].path} has {there}")
    return {**values, **given}


def _parts(files: list[_File], key: str, values: Mapping[str, Variable]) -> Mapping[str, ApplicationPart]:
    parts: dict[str, ApplicationPart] = {}
    for file in files:
        for name, document in file.part(key, dict, "a mapping from names to what they are").items():
            pointer = f"/{key}/{escaped(name)}"
            if not isinstance(document, dict):
                raise _wrong(file.path, f"expected a mapping, got {document!r}", pointer)
            if name in parts:
                raise _wrong(file.path, f"{name!r} stands in {parts[name].file} already", pointer)
            parts[name] = ApplicationPart(file.path, pointer, _filled(document, values, file.path, pointer))
    return parts


def _filled(value: Any, values: Mapping[str, Variable], file: Path, pointer: str) -> Any:
    """With the values of variables in its texts. A text that is one variable alone is that value, be it a number."""
    if isinstance(value, dict):
        return {key: _filled(each, values, file, f"{pointer}/{escaped(key)}") for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, values, file, f"{pointer}/{i}") for i, each in enumerate(value)]
    if not isinstance(value, str):
        return value

    def found(match: re.Match[str]) -> Variable:
        dollar, name = match.groups()
        if dollar:
            return match[0][1:]
        if ":" in name:  # a secret, which is looked up where it is needed
            return match[0]
        if name not in values:
            there = ", ".join(values) or "none"
            raise _wrong(file, f"there is no variable {name!r}{meant(name, values)}; there are {there}", pointer)
        return values[name]

    whole = _VARIABLE.fullmatch(value)
    return found(whole) if whole else _VARIABLE.sub(lambda match: _text(found(match)), value)


def _text(value: Variable) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(path: Path, read: Callable[[Path], Any]) -> Any:
    try:
        return read(path)
    except OSError as error:
        raise QueryError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise QueryError(f"{path} cannot be read: {error}") from None


def _wrong(file: Path, message: str, pointer: str = "") -> QueryError:
    return QueryError(f"{file}: {message}", pointer)
