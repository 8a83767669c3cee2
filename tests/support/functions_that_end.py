"""Users' functions that do their worst where n is 13, each in a way of its own: `WAYS`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa


class Mute(Exception):
    """It cannot be said what it is."""

    def __str__(self) -> str:
        raise SystemExit("not even that")


class Unspeakable:
    """What wants to show it ends."""

    def __repr__(self) -> str:
        raise KeyboardInterrupt


def _deep(n: int) -> Any:
    return _deep(n + 1)


def _raise(error: BaseException) -> Any:
    raise error


WAYS: dict[str, tuple[Callable[[], Any], str]] = {
    "exit": (lambda: sys.exit(3), "SystemExit: 3"),
    "interrupt": (lambda: _raise(KeyboardInterrupt()), "KeyboardInterrupt: "),
    "generator": (lambda: _raise(GeneratorExit("closed")), "GeneratorExit: closed"),
    "depth": (lambda: _deep(0), "RecursionError: maximum recursion depth exceeded"),
    "memory": (lambda: _raise(MemoryError("none left")), "MemoryError: none left"),
    "mute": (lambda: _raise(Mute()), "Mute, whose text cannot be had: SystemExit"),
    "surrogate in the error": (lambda: _raise(ValueError("\ud800")), "ValueError: \\ud800"),
    "surrogate": (lambda: "\ud800", "lone surrogate '\\ud800'"),
    "unspeakable": (Unspeakable, "KeyboardInterrupt: "),
}
way = "exit"  # the one that is tried


def _result(n: int) -> Any:
    return WAYS[way][0]() if n == 13 else str(n)


def text(n: int) -> str:
    return _result(n)  # type: ignore[no-any-return]


def batch(given: pa.RecordBatch) -> pa.RecordBatch:
    made = [_result(n) for n in given.column("n").to_pylist()]
    return pa.RecordBatch.from_arrays([pa.array(made, pa.string())], ["r"])


def state(before: Any, n: int) -> tuple[Any, tuple[str]]:
    return before, (_result(n),)


class Last:
    """Of a group's rows, the last; the worst comes when it adds."""

    def init(self) -> str:
        return ""

    def add(self, before: str, n: int) -> str:
        return _result(n)  # type: ignore[no-any-return]

    def result(self, last: str) -> str:
        return last


class NotMade(Last):
    def __init__(self) -> None:
        sys.exit(4)
