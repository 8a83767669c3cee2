"""The dead letters of a query instance: exact counts always, the last letters kept (rule 4.9)."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import asdict, dataclass

LETTERS_MAX = 10_000
RECORD_BYTES_MAX = 1024
RECORDS_WAITING_MAX = 500
"""Letters that wait with the values of their rows, which take twice as long to write down as the rest: as many as one report takes."""


@dataclass(frozen=True, slots=True)
class Letter:
    """One row or record that could not be used: which operator refused it, why, where it came from, its first 1 kB."""

    operator: str
    reason: str
    source: str = ""
    position: str = ""
    record: str = ""

    def to_json(self) -> dict[str, str]:
        return asdict(self)


class DeadLetters:
    """Counts per operator; letters wait here until the next report takes them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.letters: deque[Letter] = deque(maxlen=LETTERS_MAX)

    def put(self, letter: Letter) -> None:
        self.counts[letter.operator] += 1
        self.letters.append(letter)

    @property
    def takes_values(self) -> bool:
        """Do so few letters wait that one more is to say the values of its row?"""
        return len(self.letters) < RECORDS_WAITING_MAX

    def count_only(self, operator: str, rows: int) -> None:
        """For rows of which too many came at once to keep a letter each."""
        self.counts[operator] += rows

    def take(self, most: int) -> list[Letter]:
        """Up to `most` letters, oldest first; they are the caller's now."""
        return [self.letters.popleft() for _ in range(min(most, len(self.letters)))]
