"""The programs that rows are compared with, compiled where they run: `references/NAME.c`, or `NAME.cpp` where a library is C++."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from benchmarks.sides import RunFailed

SOURCES = Path(__file__).with_name("references")
PLACE = "{programs}/"
NO_COMPILER = "no compiler (cc, c++) is here: not compared with the C program"
NO_RE2 = "RE2's header re2/re2.h is not here: not compared with RE2; Debian's libre2-dev has it"
_RE2 = ("regex",)


class NotHere(RunFailed):
    """What a program is compiled with is missing."""


def named(command: Iterable[str]) -> list[str]:
    """The programs that stand in a command."""
    return [part.removeprefix(PLACE) for part in command if part.startswith(PLACE)]


def compile_here(name: str, folder: Path) -> None:
    """`folder`/`name`, compiled anew where a source is newer. Raises NotHere, or CalledProcessError for what does not compile."""
    (source,) = SOURCES.glob(f"{name}.c*")
    compiler, program = "cc" if source.suffix == ".c" else "c++", folder / name
    if shutil.which(compiler) is None:
        raise NotHere(NO_COMPILER)
    sources = [source, *SOURCES.glob("*.h")]
    if program.exists() and program.stat().st_mtime >= max(path.stat().st_mtime for path in sources):
        return
    libraries = ["-lre2"] if name in _RE2 else []
    if libraries and not _has_header(compiler, "re2/re2.h"):
        raise NotHere(NO_RE2)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([compiler, "-O3", "-march=native", "-o", str(program), str(source), *libraries], check=True)


def _has_header(compiler: str, header: str) -> bool:
    words = [compiler, "-x", "c++", "-M", "-"]  # what it includes is found, and not compiled
    return subprocess.run(words, input=f"#include <{header}>\n", text=True, capture_output=True).returncode == 0
