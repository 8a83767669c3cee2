"""What is said to a part of the engine that does one thing after the other: words from any thread, taken together.

A part like that has a `turn(words)` that does one round and never blocks. A thread around it waits here; a simulation takes what has come.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")

_MANY = 1 << 30


def _nobody_is_told() -> None:
    """It waits in `take`."""


class Mailbox(Generic[T]):
    """`put` and `take` may be called from any thread. `on_word`: a word has come, for what does not wait in `take`.

    Not a `queue.SimpleQueue`: where its thread loses the core just when it looks how much of a short timeout is left, and that is less than
    nothing, it waits for ever (CPython 3.11). What had been taken then lay here until the next word came."""

    def __init__(self) -> None:
        self._words: queue.Queue[T] = queue.Queue()
        self.on_word: Callable[[], None] = _nobody_is_told

    def put(self, word: T) -> None:
        self._words.put(word)
        self.on_word()

    def take(self, patience_s: float | None, burst_s: float = 0.0, words_max: int = _MANY) -> list[T]:
        """All that has come, in order.

        Args:
            patience_s: so long it waits for the first; None: for ever.
            burst_s: so long it waits for each further one.
        """
        words: list[T] = []
        with suppress(queue.Empty):
            words.append(self._words.get(timeout=patience_s))
            while len(words) < words_max:
                words.append(self._words.get(timeout=burst_s))
        return words

    @property
    def is_empty(self) -> bool:
        return self._words.empty()
