"""Where the time goes: what an engine's thread does is charged to an account, and nothing to two.

A meter has one mark. Each piece of work is charged: the time since the mark goes to that account, and the mark moves
to now. So an operator is never charged for what those behind it did with its tuples, for they have been charged themselves; what
is not charged goes with the next piece of work.

The clock tells elapsed time: on Linux it is read without a system call (45 ns), the CPU time of a thread only with one (480 ns). What is
elapsed is made CPU time when it is reported (`Account.settle`), by how much CPU the thread had in the meantime: what others took of its
core is spread over the accounts as their elapsed time is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

from cep.service.mark import Mark
from cep.world.stalls import SLOW_NS

Clock = Callable[[], int]  # ns since any moment


@dataclass(slots=True, eq=False)
class Account:
    """What one operator, or one step that is no operator, has taken in and cost; `busy_ns`: elapsed and not yet settled."""

    rows: int = 0
    bytes: int = 0  # of what came from other processes
    batches: int = 0
    busy_ns: int = 0
    cpu_ns: int = 0
    owner: str = ""  # the key of the instance that it belongs to, where that is at home

    def take(self, rows: int, size: int = 0) -> None:
        """One more batch has come."""
        self.rows += rows
        self.bytes += size
        self.batches += 1

    def add(self, other: Account) -> None:
        """What `other` has taken in and cost is this one's, too."""
        self.rows += other.rows
        self.bytes += other.bytes
        self.batches += other.batches
        self.busy_ns += other.busy_ns
        self.cpu_ns += other.cpu_ns

    def settle(self, share: float) -> None:
        """`share` of what has elapsed was CPU time."""
        self.cpu_ns += round(self.busy_ns * share)
        self.busy_ns = 0


def _stands_still() -> int:
    return 0


def _let_pass(account: Account, spent_ns: int) -> None:
    """Nobody asks what was slow."""


def _pass_by(now: int) -> None:
    """Nobody asks when."""


class Meter:
    """The meter of one thread. Without a clock it measures nothing. `words`: where it is said what the thread is at
    (`cep.service.mark`). `slow` is told of each piece of work that took more than SLOW_NS, and of how long; `came_round`, now
    and then, of the time: between two pieces, or before one."""

    __slots__ = ("came_round", "clock", "mark", "measures", "slow", "words")

    def __init__(self, clock: Clock | None = None, words: memoryview | None = None) -> None:
        self.measures = clock is not None
        self.clock = clock or _stands_still
        self.mark = self.clock()
        self.words = Mark.open(None).loop.words if words is None else words
        self.slow: Callable[[Account, int], None] = _let_pass
        self.came_round: Callable[[int], None] = _pass_by

    def charge(self, account: Account) -> None:
        """What was done since the mark was done for `account`."""
        now = self.clock()
        spent = now - self.mark
        account.busy_ns += spent
        self.mark = now
        if spent > SLOW_NS:
            self.slow(account, spent)


@dataclass(slots=True)
class CreditWait:
    """How long something has waited in all, in ns of the meter's clock."""

    since: int | None = None
    waited_ns: int = 0

    def note(self, waits: bool, now: int) -> None:
        """It waits, or waits no more, since `now` at the latest."""
        if waits and self.since is None:
            self.since = now
        elif not waits and self.since is not None:
            self.waited_ns, self.since = self.until(now), None

    def until(self, now: int) -> int:
        return self.waited_ns + (0 if self.since is None else max(0, now - self.since))


#: Upper bounds of the classes of a latency histogram, in µs; a last class has none.
LATENCY_BOUNDS_US = tuple(step * 10**power for power in range(2, 8) for step in (1, 2, 5))


@dataclass(slots=True)
class Latency:
    """From the creation of a batch's oldest tuple until the batch has come out, of every batch that says when it was created."""

    clock: Callable[[], int]  # µs since the epoch
    sum_us: int = 0
    counts: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_US) + 1))  # tuples by class

    def note(self, created: int, rows: int) -> None:
        """`rows` tuples come out, of which the oldest was created `created` ns after the epoch; 0: it is not known."""
        if created:
            latency = self.clock() - created // 1000
            if latency > 0:
                self.counts[bisect_left(LATENCY_BOUNDS_US, latency)] += rows
                self.sum_us += latency * rows
            else:
                self.counts[0] += rows
