"""Links between simulated hosts: whatever is cut, each message comes once and in order; a cut is felt by those between which it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from simulation.links import Deliver, Hosts
from simulation.schedule import MS, S, SeededSchedule

ONE, OTHER, THIRD = "link://h0@/run/a", "link://h1@10.0.0.2:1/run/b", "link://h2@10.0.0.3:1/run/c"


class Received:
    """What has come, by sender and receiver; all of it is used up at once."""

    def __init__(self, schedule: SeededSchedule) -> None:
        self.schedule = schedule
        self.messages: dict[tuple[str, str], list[bytes]] = {}
        self.last_ns = 0

    def deliver(self, source: str, target: str) -> Deliver:
        def take(message: bytes, taken: Callable[[], None]) -> None:
            self.messages.setdefault((source, target), []).append(message)
            self.last_ns = self.schedule.now_ns
            taken()

        return take

    def came(self, count: int) -> bool:
        return sum(map(len, self.messages.values())) >= count


def hosts_of(seed: int) -> tuple[SeededSchedule, Hosts, Received]:
    schedule = SeededSchedule(seed)
    hosts = Hosts(schedule, 3, lambda: (MS, 5 * MS))
    for endpoint in (ONE, OTHER, THIRD):
        hosts.place(endpoint)
    return schedule, hosts, Received(schedule)


@pytest.mark.parametrize("seed", range(8))
def test_every_message_comes_once_and_in_order_though_hosts_are_cut_off(seed: int) -> None:
    schedule, hosts, received = hosts_of(seed)
    ways = [(ONE, OTHER), (OTHER, ONE), (ONE, THIRD), (THIRD, OTHER)]
    hosts.begin_cuts()
    for i in range(200):
        for source, target in ways:
            message = b"%d " % i + bytes(schedule.choose.choice((1, 100, 5_000)))
            schedule.at(i * 5 * MS, partial(hosts.send, source, target, message, received.deliver))
    schedule.run(lambda: received.came(200 * len(ways)) and hosts.cuts > 0, 600 * S)
    for way in ways:
        assert [int(message.split(b" ")[0]) for message in received.messages[way]] == list(range(200))


def test_what_is_sent_over_a_cut_comes_when_it_is_over() -> None:
    schedule, hosts, received = hosts_of(1)
    hosts.send(ONE, OTHER, b"before", received.deliver)
    hosts.send(ONE, THIRD, b"before", received.deliver)
    schedule.run(lambda: received.came(2), S)
    hosts.cut({(0, 1), (1, 0)}, 300 * MS)
    assert hosts.is_cut(0, 1) and hosts.is_cut(1, 0) and not hosts.is_cut(0, 2)
    began = schedule.now_ns
    hosts.send(ONE, THIRD, b"beside it", received.deliver)
    schedule.run(lambda: received.came(3), S)
    assert schedule.now_ns - began < 100 * MS
    hosts.send(ONE, OTHER, b"over it", received.deliver)
    schedule.run(lambda: received.came(4), 10 * S)
    assert received.messages[ONE, OTHER] == [b"before", b"over it"] and received.last_ns - began >= 300 * MS


def test_where_processes_are() -> None:
    schedule, hosts, _ = hosts_of(1)
    assert hosts.are_apart(ONE, OTHER) and not hosts.are_apart(ONE, "link://h0@/run/a")
    alone = Hosts(schedule, 1, lambda: (MS, MS))
    for endpoint in (ONE, OTHER):
        alone.place(endpoint)
    assert not alone.are_apart(ONE, OTHER)
    alone.begin_cuts()
    hosts.begin_cuts()
    schedule.run(lambda: hosts.cuts >= 1, 10 * S)
    assert alone.cuts == 0
