"""Waiting for a condition, with a limit beyond which it counts as hanging. No test sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

HANG_S = 45.0


def until(condition: Callable[[], T], seconds: float = HANG_S) -> T:
    """Asks until the answer is true, and gives it. Fails with the last answer when it hangs."""
    pause = threading.Event()
    answer = condition()
    for _ in range(int(seconds / 0.02)):
        if answer:
            return answer
        pause.wait(0.02)
        answer = condition()
    raise AssertionError(f"hangs after {seconds:g} s; the last answer was {answer!r}")
