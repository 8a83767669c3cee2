"""What handlers fill and one thread waits for. A `SimpleQueue`, for a KeyboardInterrupt anywhere in its calls leaves it whole."""

from __future__ import annotations

import queue
from typing import TypeVar

T = TypeVar("T")

Messages = queue.SimpleQueue  # noqa: TID251 - `next_within` is how it is waited for


def next_within(messages: Messages[T], seconds: float) -> T:
    """Raises queue.Empty. `seconds` above 0, of one thread at a time.

    A first look without waiting, for that takes the queue's lock: where a wait has to take it and what is left of its time is less than
    nothing by then, it waits for ever (CPython 3.11).
    """
    try:
        return messages.get_nowait()
    except queue.Empty:
        return messages.get(timeout=seconds)
