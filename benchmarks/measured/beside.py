"""A process that computes without pause on one core, beside what is measured there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext


def beside(core: int, wanted: bool) -> AbstractContextManager[object]:
    """With it, if wanted."""
    return computing(core) if wanted else nullcontext()


@contextmanager
def computing(core: int) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            os.sched_setaffinity(process.pid, {core})
            yield
        finally:
            process.kill()
