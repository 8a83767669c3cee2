"""A peer that is a Java program, at work in a process of its own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.java import JavaProgram

MARKS = [
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not (shutil.which("mvn") and shutil.which("javac")), reason="needs Maven and a JDK"),
]
"""Of tests that ask a peer."""


def program(name: str, *jars: str) -> JavaProgram:
    """That of a file beside this one."""
    return JavaProgram(Path(__file__).with_name(f"{name}.java"), jars)


class JavaPeer:
    """The process, which is told a case in some lines and answers with a line for each match, `match …`, or `error …`, and `end`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @staticmethod
    @contextmanager
    def running(asked: JavaProgram, folder: Path) -> Iterator[JavaPeer]:
        """Built in `folder`. Raises RuntimeError."""
        asked.build(folder)
        words, pipe = asked.words(folder), subprocess.PIPE
        with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
            try:
                yield JavaPeer(process)
            finally:
                process.kill()

    def ask(self, lines: Iterable[str]) -> Sequence[list[str]]:
        """Of each match its words. Raises RuntimeError: it cannot do that one; says why."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n".join(lines) + "\n")
        self._process.stdin.flush()
        found: list[list[str]] = []
        error = ""
        for line in self._process.stdout:
            kind, *words = line.split()
            if kind == "match":
                found.append(words)
            elif kind == "error":
                error = line.strip()
            elif error:
                raise RuntimeError(error)
            else:
                return found
        raise RuntimeError(f"the peer ended with status {self._process.wait()}")
