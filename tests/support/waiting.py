"""Waiting for a condition, with a limit beyond which it counts as hanging. No test sleeps.

The longer it takes, the less often is it asked: a question to a cluster costs milliseconds of CPU, which others of the suite need.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

HANG_S = 45.0


def until(condition: Callable[[], T], seconds: float = HANG_S) -> T:
    """Asks until the answer is true, and gives it. Fails with the last answer when it hangs."""
    pause, begun = threading.Event(), time.monotonic()
    while not (answer := condition()):
        waited = time.monotonic() - begun
        if waited > seconds:
            raise AssertionError(f"hangs after {seconds:g} s; the last answer was {answer!r}")
        pause.wait(min(max(waited / 8, 0.01), 0.15))
    return answer
