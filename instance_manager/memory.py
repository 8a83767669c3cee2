"""Memory that comes to its end: the query that has most of it here fails by name, before the kernel ends the process, and all queries.

Rules:
1. It is the end at FULL_PERCENT of a bound (`cep.world.memory`). Where the bound is shared, it is the turn of the processes that have
   more than their share of it; at SHARED_FULL_PERCENT of all: then others have taken it, or processes that know of no share.
2. First what can be given back is given back; only if that is not enough does a query fail.
3. After that nothing is done until that query is gone, and for REST_NS: memory goes with the instances, and others are not to pay for it.
4. A query without much to give is not failed: that would help no other.
What is taken within one step of an operator is seen behind it; a step that takes the last tenth at once is not survived.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from cep.kernels.tables.growing import let_go
from cep.service.logs import about
from cep.world.clock import Clock
from cep.world.memory import Bound, Memory
from instance_manager.hosting import InstanceHost

FULL_PERCENT, SHARED_FULL_PERCENT = 90, 95
LOOK_NS, GROWN_BYTES = 500_000_000, 16 << 20
"""It looks as often as this, and whenever the process has grown by so much since: a look costs 0.2 ms, its own size 2 µs."""
REST_NS = 2_000_000_000
WORTH_PERCENT = 2
"""Of the bound: what a query must have for its end to be of use."""

LOG = logging.getLogger(__name__)


class MemoryGuard:
    """Of one instance manager.

    Args:
        im: its id.
        neighbours: how many of its kind share the machine's memory, itself among them.
        give_back: gives back to the kernel what is free.
        size_of: bytes that an instance has.
    """

    def __init__(
        self,
        im: str,
        memory: Memory,
        clock: Clock,
        neighbours: int = 1,
        give_back: Callable[[], None] | None = None,
        size_of: Callable[[InstanceHost], int] | None = None,
    ) -> None:
        self.im, self.memory, self.clock, self.neighbours = im, memory, clock, neighbours
        self._give_back, self._size_of = give_back or give_memory_back, size_of or bytes_of
        self._due = self._rests_until = self._seen = 0
        self._ending = ""  # the query that was failed last, while it is here

    def limit_bytes(self) -> int | None:
        """What this process may have: the least of its bounds, and of the shared ones its share; None: there is no bound."""
        return min((each.most // self.neighbours if each.shared else each.most for each in self.memory.bounds()), default=None)

    def tick(self, hosted: Mapping[str, InstanceHost]) -> None:
        """Looks, where it is time to. `hosted`: by key."""
        now, own = self.clock.steady_ns(), self.memory.resident_bytes()
        if now < self._due and (own < self._seen + GROWN_BYTES or now < self._rests_until):
            return
        self._due, self._seen = now + LOOK_NS, own
        if self._over() is None or any(each.instance.query == self._ending and each.instance.done for each in hosted.values()):
            return  # one that has come anew under its name is not done
        self._give_back()
        if (bound := self._over()) is not None:
            self._fail_largest(bound, hosted.values())
            self._due = self._rests_until = now + REST_NS

    def _over(self) -> Bound | None:
        own = self.memory.resident_bytes()
        return next((each for each in self.memory.bounds() if is_over(each, own, self.neighbours)), None)

    def _fail_largest(self, bound: Bound, hosted: Iterable[InstanceHost]) -> None:
        queries: dict[str, list[InstanceHost]] = {}
        for each in hosted:
            if not each.instance.done:
                queries.setdefault(each.instance.query, []).append(each)
        sizes = {query: sum(map(self._size_of, instances)) for query, instances in queries.items()}
        largest = max(sizes, key=sizes.__getitem__, default="")
        full = f"{bound.what} is {bound.used / bound.most:.0%} used: {bound.used:,} of {bound.most:,} bytes"
        if 100 * sizes.get(largest, 0) < WORTH_PERCENT * bound.most:
            LOG.warning("%s, and no query here has much of it", full)
            return
        self._ending = largest
        why = f"MemoryLimitExceeded: {full}; the query has most of it at {self.im}, {sizes[largest]:,} bytes, {most_of(queries[largest])}"
        LOG.error("query %r: %s", largest, why, extra=about(largest))
        for each in queries[largest]:
            each.instance.fail(why)
            each.wake()


def is_over(bound: Bound, own: int, neighbours: int) -> bool:
    """Is it the turn of a process with `own` bytes to end a query?"""
    full, last = FULL_PERCENT * bound.most, SHARED_FULL_PERCENT * bound.most
    if 100 * bound.used < full:
        return False
    return not bound.shared or 100 * own * neighbours >= full or 100 * bound.used >= last


def bytes_of(hosted: InstanceHost) -> int:
    """What an instance keeps: state, what waits for it, and what waits for its readers or a commit."""
    instance = hosted.instance
    state = sum(node.stateful.state_bytes for node in instance.nodes if node.stateful is not None)
    waiting = sum(port.inbox.held() for port in hosted.ports.incoming.values())
    waiting += sum(publisher.inbox.held() for entry in hosted.entries.values() for publisher in entry.source.publishers.values())
    return state + waiting + sum(each.kept_bytes for outlet in hosted.outlets.values() for each in outlet.subscriptions.values())


def most_of(instances: Iterable[InstanceHost]) -> str:
    """Where most of a query's state is, and of what it consists: as a failure at the limit of an instance's state says it."""
    operators = [node.stateful for each in instances for node in each.instance.nodes if node.stateful]
    largest = max(operators, key=lambda operator: operator.state_bytes, default=None)
    if largest is None or not largest.state_bytes:
        return "in what waits to be processed or read"
    return f"most in operator {largest.name!r} ({largest.state_bytes:,} bytes), with {largest.contents()}"


def give_memory_back() -> None:
    """To the kernel: what is free in the heaps of Arrow and of the C library, which otherwise keeps it (`instance_manager.own_memory`)."""
    pa.default_memory_pool().release_unused()
    let_go()
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
