"""The two sides of a row as processes: a command that is started for every run, or one that stands and runs again when it is told to."""

from __future__ import annotations

import json
import select
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, Protocol

TIMEOUT_S = 600

STANDING = "--standing"
"""By this word a command is known that runs once for every line that it reads, until there are no more."""

Run = dict[str, Any]
"""The JSON line of one run."""


class RunFailed(Exception):
    """A command did not end well, or said something else than a line of JSON."""


class ComparedSide(Protocol):
    """Runs a command once; one that stands is told `line`. Raises RunFailed."""

    def __call__(self, line: str = "") -> Run: ...


@contextmanager
def side(words: Sequence[str], environment: Mapping[str, str]) -> Iterator[ComparedSide]:
    """A command, in a process for each run, or in one that stands until the block is left, and is gone then."""
    if STANDING not in words:
        yield lambda line="": _said(words, *_once(words, environment))
        return
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(words, env=environment, stdin=pipe, stdout=pipe, stderr=errors, text=True) as process,
    ):
        try:
            yield lambda line="": _said(words, *_again(words, process, errors, line))
        finally:
            _end(process)


def _once(words: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str, str]:
    try:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise RunFailed(f"{' '.join(words)}: did not end within {TIMEOUT_S} s") from None
    return done.returncode, done.stdout, done.stderr


def _again(words: Sequence[str], process: subprocess.Popen[str], errors: IO[str], line: str) -> tuple[int, str, str]:
    """One more run: as of a process that has ended, its status, what it said, its errors."""
    asked, said = process.stdin, process.stdout
    assert asked is not None and said is not None
    with suppress(BrokenPipeError):  # it is over, and its status says how
        asked.write(f"{line}\n")
        asked.flush()
        if not select.select([said], [], [], TIMEOUT_S)[0]:
            raise RunFailed(f"{' '.join(words)}: said nothing within {TIMEOUT_S} s")
        if answer := said.readline():
            return 0, answer, ""
    status = process.wait(TIMEOUT_S)
    errors.seek(0)
    return status, "", errors.read()


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()


def _said(words: Sequence[str], status: int, out: str, errors: str) -> Run:
    lines = out.strip().splitlines()
    if status or not lines:
        told = (errors or out).strip().splitlines()
        raise RunFailed(f"{' '.join(words)}: exit status {status}: {' / '.join(told[-3:]) or 'nothing said'}")
    try:
        return dict(json.loads(lines[-1]))
    except ValueError:
        raise RunFailed(f"{' '.join(words)}: expected a line of JSON last, got {lines[-1]!r}") from None
