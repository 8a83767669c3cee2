"""The file of a cluster: TOML, an option a line. All that is wrong in it is told at once, each with its line.

`tomllib` says neither where a value stands nor, behind the first, what is wrong. So each statement is read by itself: from its first
line on as many as make TOML of it.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cep.errors import ClusterError, meant
from driver.configuration.option import Option, Unfit
from driver.configuration.table import BY_NAME

FILE_BYTES_MAX = 1 << 20
STATEMENT_LINES_MAX = 1000
_OTHERS_MAY_READ = stat.S_IRGRP | stat.S_IROTH


@dataclass(frozen=True, slots=True)
class FileValue:
    """A value, and the line where it stands."""

    value: Any
    line: int


@dataclass(frozen=True, slots=True)
class Mistake:
    """`where`: `cep.toml:12`, `CEP_DATA`, `--port`."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What a file says: values by option, and what is wrong in it."""

    path: str
    values: dict[str, FileValue]
    mistakes: tuple[Mistake, ...]


def read_file(path: Path) -> ConfigFile:
    """Raises ClusterError: it cannot be read at all."""
    try:
        with path.open("rb") as opened:
            text, mode = opened.read(FILE_BYTES_MAX + 1).decode("utf-8-sig"), os.fstat(opened.fileno()).st_mode
    except OSError as error:
        raise ClusterError(f"the configuration {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ClusterError(f"the configuration {path}: expected UTF-8, {error.reason} at byte {error.start}") from None
    if len(text) > FILE_BYTES_MAX:
        raise ClusterError(f"the configuration {path}: expected at most {FILE_BYTES_MAX:,} bytes; is it another file?")
    return _File(str(path), bool(mode & _OTHERS_MAY_READ)).read(text)


class _File:
    def __init__(self, path: str, is_open: bool) -> None:
        self.path, self.is_open = path, is_open
        self.values: dict[str, FileValue] = {}
        self.mistakes: list[Mistake] = []

    def read(self, text: str) -> ConfigFile:
        for line, statement in statements(text):
            if isinstance(statement, tomllib.TOMLDecodeError):
                self._wrong(line, f"expected TOML such as rest_port = 8765; {_bare(statement)}")
            else:
                for key, value in statement.items():
                    self._take(line, key, value)
        return ConfigFile(self.path, self.values, tuple(self.mistakes))

    def _take(self, line: int, key: str, value: object) -> None:
        option = BY_NAME.get(key)
        if option is None and isinstance(value, dict):
            self._wrong(line, f"unknown table or key {key!r}{meant(key, BY_NAME)}; options stand by themselves, without tables")
        elif option is None:
            self._wrong(line, f"unknown option {key!r}{meant(key, BY_NAME)}; `cep config table` lists all")
        elif key in self.values:
            self._wrong(line, f"{key} stands in line {self.values[key].line} already")
        else:
            self._note(line, option, value)

    def _note(self, line: int, option: Option, value: object) -> None:
        try:
            self.values[option.name] = FileValue(option.from_toml(value), line)
        except Unfit as wrong:
            self._wrong(line, f"{option.name}: {wrong}")
        if option.secret and self.is_open:
            self._wrong(line, f"{option.name} is a secret, and other users may read this file: chmod 600 {self.path}")

    def _wrong(self, line: int, what: str) -> None:
        self.mistakes.append(Mistake(f"{self.path}:{line}", what))


def statements(text: str) -> Iterator[tuple[int, dict[str, Any] | tomllib.TOMLDecodeError]]:
    """Each statement with its first line, from 1: its keys and values; or, of a line with which none begins, what is wrong."""
    lines, at = text.split("\n"), 0
    while at < len(lines):
        length, found = _statement(lines[at : at + STATEMENT_LINES_MAX])
        yield at + 1, found
        at += length


def _statement(lines: list[str]) -> tuple[int, dict[str, Any] | tomllib.TOMLDecodeError]:
    """(lines, what they say) of the statement that begins with the first of `lines`."""
    first: tomllib.TOMLDecodeError | None = None
    for length in range(1, len(lines) + 1):
        try:
            return length, tomllib.loads("\n".join(lines[:length]).replace("\r", ""))
        except tomllib.TOMLDecodeError as error:
            first = first or error
        if not _may_go_on(lines[0]):
            break
    assert first is not None
    return 1, first


def _may_go_on(line: str) -> bool:
    """Only arrays and texts in three quotes have several lines."""
    return "[" in line or '"""' in line or "'''" in line


def _bare(error: tomllib.TOMLDecodeError) -> str:
    """What it says, without the place, which is that of the statement."""
    return str(error).partition(" (at ")[0]
