"""Hosts that are left while a query runs (`simulation.cluster` begins it): agents that register them, and a user who has them evacuated.

`evacuate` is `cep evacuate HOST`: the host stays, empty. `leave` is SIGTERM to its agent: that asks again and again until nothing is left
there, ends its instance managers and then itself; some join anew. Once a host has been said to be empty, its processes may end, and nothing
of the query may take harm; and as long as it is that host, nothing of the query may be there again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cep.errors import CepError, NotFound
from cep.model.hosts import AgentProcess, Host
from cep.model.topology import Topology
from cep.plan.moving import why_it_stays
from cep.plan.physical import PhysicalPlan
from cep.service.mark import UNREAD
from cep.transport.endpoints import host_of
from cep.world.coordination import Connection
from cep.world.mailbox import Mailbox
from driver.processes.host_keeper import LOOK_S, HostKeeper
from driver.processes.joining import LEAVE_S, WAIT_S
from driver.rest import path
from orchestrator.state.evacuations import ENDED, NOWHERE
from simulation.client import ClientProcess
from simulation.clock import ProcessClock
from simulation.coordination import SimulatedZooKeeper
from simulation.processes import InstanceManagerProcess, next_turn
from simulation.schedule import MS, S, SeededSchedule, Task
from simulation.workload import DrawnWorkload

STANDSTILL_NS = 3 * S  # so long nothing leaves where nothing keeps it from going, and something is wrong
LOOK_NS = 300 * MS
BETWEEN_NS = (20 * MS, 200 * MS, 2 * S)
JOINS_ANEW_NS = 3 * S  # at most, after it has left
SEEN_NS = 2 * S  # so long an orchestrator may not know yet that it has joined


def host_name(number: int) -> str:
    return f"h{number}"


def endpoint_on(host: int, process: str) -> str:
    """Of a process of a cluster of several hosts."""
    return f"link://{host_name(host)}@10.0.0.{host + 1}:4000/simulated/{process}"


class HostProcess:
    """What says that a host is there; `pid` tells its agents apart."""

    def __init__(self, schedule: SeededSchedule, zookeeper: SimulatedZooKeeper, number: int, topology: Topology, pid: int) -> None:
        self.name, self.zookeeper, self.schedule, self.pid = host_name(number), zookeeper, schedule, pid
        self.clock = ProcessClock(schedule)
        self.mailbox: Mailbox[Connection] = Mailbox()
        self.session = zookeeper.connect(f"{self.name}-keeper", self.clock)
        host = Host(self.name, f"10.0.0.{number + 1}", topology, AgentProcess(pid, self.clock.wall_ns() // 1000))
        self.keeper = HostKeeper(self.session, self.clock, host, lambda: ())
        self.task = Task(schedule, self._turn, self.clock)
        self.mailbox.on_word = self.task.wake

    def start(self) -> None:
        self.session.start(self.mailbox.put)
        self.task.wake()

    def _turn(self) -> int | None:
        for word in self.mailbox.take(0.0):
            self.keeper.take(word)
        self.keeper.turn()
        return next_turn(self.clock, self.mailbox, LOOK_S)

    def close(self) -> None:
        self.task.end()

    def leave(self) -> None:
        """Its session ends with it."""
        self.close()
        self.zookeeper.kill(self.session, self.schedule.now_ns)


class Leavable(Protocol):
    """A cluster of several hosts, as those see it who leave one."""

    schedule: SeededSchedule
    zookeeper: SimulatedZooKeeper
    managers: list[InstanceManagerProcess]
    mover: ClientProcess
    machine: Topology
    work: DrawnWorkload
    is_over: bool

    def restart_manager(self, number: int) -> None: ...

    def current_plan(self) -> PhysicalPlan: ...

    def is_query_over(self) -> bool: ...


@dataclass
class Left:
    """A host that was said to be empty; `agent`: by which it was there."""

    host: str
    agent: int


class Evacuations:
    """`count` of them, at moments of the seed's choice; none where `hosts` is 1. `calm`: no process is killed and no network is cut, so
    there is no reason for an instance not to go in time."""

    def __init__(self, cluster: Leavable, hosts: int, count: int, ends: bool, calm: bool) -> None:
        self.cluster, self.count, self.ends, self.calm = cluster, count, ends, calm
        own = cluster.schedule, cluster.zookeeper
        self.agents = [HostProcess(*own, number, cluster.machine, 1) for number in range(hosts)] if count else []
        self.asked: set[str] = set()
        self.done = 0
        self._was_nowhere = False  # has every instance manager been on a host that was left, or had hardly joined?
        self._joined_ns: dict[str, int] = {}  # hosts that have joined anew
        self._empty: list[Left] = []
        self._ended: set[str] = set()  # hosts that have left, and have not joined anew
        self._wrong: list[str] = []

    def begin(self) -> None:
        """From now on hosts are left."""
        if self.count:
            self.cluster.mover.run(self._leave_all)

    def _leave_all(self) -> None:
        choose, mover = self.cluster.schedule.choose, self.cluster.mover
        between_ns = choose.choice(BETWEEN_NS)
        for _ in range(self.count):
            mover.pause(choose.randint(0, between_ns))
            staying = [agent for agent in self.agents if agent.name not in self.asked]
            if staying and not self.cluster.is_over:
                self._leave(choose, staying[choose.randrange(len(staying))])
        while not self.cluster.is_over:
            mover.pause(LOOK_NS)
            self._look()

    def _leave(self, choose: random.Random, agent: HostProcess) -> None:
        self.asked.add(agent.name)
        hardly = {host for host, at in self._joined_ns.items() if self.cluster.schedule.now_ns - at < SEEN_NS}
        self._was_nowhere |= all(host_of(each.endpoint) in self.asked | hardly for each in self.cluster.managers)
        ends = self.ends and agent.name != host_name(0) and choose.random() < 0.6
        left = self._asked_until_empty(agent.name)
        if left is None:
            return
        self.done += 1
        if left and self.calm and not self._has_no_refuge and not self.cluster.is_query_over():
            self._wrong.append(f"host {agent.name!r} is still not empty, and the query goes on: {left}")
        if not left:
            self._look()
            self._empty.append(Left(agent.name, agent.pid))
        if ends:
            self._end(choose, agent)

    def _asked_until_empty(self, host: str) -> list[Any] | None:
        """What is left in the end, as an agent asks that has got SIGTERM; None: it was refused."""
        now_ns = self.cluster.schedule.now_ns
        deadline_ns, left, since_ns = now_ns + int(LEAVE_S * S), self._ask(host), now_ns
        while left and (now_ns := self.cluster.schedule.now_ns) < deadline_ns:
            before, left = left, self._ask(host)
            since_ns = since_ns if left == before else now_ns
            if left and now_ns - since_ns > STANDSTILL_NS and not self._may_stand_still(left):
                self._wrong.append(f"nothing has gone from host {host!r} for {STANDSTILL_NS // S} s, where there is {left}")
                since_ns = deadline_ns
        return left

    @property
    def _has_no_refuge(self) -> bool:
        """It recovers, so it stays rather than fail where all is being left; and goes on at what lives when one of these hosts ends."""
        return self.cluster.work.recovers and self._was_nowhere

    def _may_stand_still(self, left: list[Any]) -> bool:
        return not self.calm or self._was_nowhere or self._are_ended(left)

    def _are_ended(self, left: list[Any]) -> bool:
        hosted = {(each.instance.subquery, each.instance.index): each for m in self.cluster.managers for each in m.loop.hosted.values()}
        return all(hosted[each["subquery"], each["instance"]].instance.state == "ended" for each in left)

    def _ask(self, host: str) -> list[Any] | None:
        address = f"{path('hosts', host)}/evacuate?wait=true&timeout=1"
        while not self.cluster.is_over:
            try:
                left: list[Any] = self.cluster.mover.rest.post(address, again=True)["left"]
                self.cluster.schedule.note("mover", f"has left host {host}, where there is {left or 'nothing'}")
                return left
            except NotFound:  # it has not been seen yet, or not by this orchestrator
                self.cluster.mover.pause(50 * MS)
            except CepError as error:
                self.cluster.schedule.note("mover", f"cannot leave host {host}: {error}")
                self.cluster.mover.pause(50 * MS)
        return None

    def _end(self, choose: random.Random, agent: HostProcess) -> None:
        """Instance managers first, then what says that the host is there."""
        here = [number for number, each in enumerate(self.cluster.managers) if host_of(each.endpoint) == agent.name]
        self._await_readers([self.cluster.managers[number] for number in here])
        for number in here:
            self.cluster.managers[number].kill(self.cluster.schedule.now_ns)
        agent.leave()
        self.cluster.schedule.note(agent.name, "has left")
        self._ended.add(agent.name)
        are_all_gone = all(host_of(each.endpoint) in self._ended for each in self.cluster.managers)
        if choose.random() < 0.5 or are_all_gone:  # a query without any instance manager stands still
            self.cluster.mover.pause(choose.randint(0, JOINS_ANEW_NS))
            self._join_anew(agent, here)

    def _await_readers(self, managers: Sequence[InstanceManagerProcess]) -> None:
        """Of what ended queries hold there."""
        deadline_ns = self.cluster.schedule.now_ns + int(LEAVE_S * S)
        while any(each.loop.slot.words[UNREAD] for each in managers) and self.cluster.schedule.now_ns < deadline_ns:
            self.cluster.mover.pause(int(WAIT_S * S))

    def _join_anew(self, agent: HostProcess, managers: list[int]) -> None:
        number = self.agents.index(agent)
        self.agents[number] = HostProcess(self.cluster.schedule, self.cluster.zookeeper, number, self.cluster.machine, agent.pid + 1)
        self.agents[number].start()
        for each in managers:
            self.cluster.restart_manager(each)
        self._joined_ns[agent.name] = self.cluster.schedule.now_ns
        self.asked.discard(agent.name)
        self._ended.discard(agent.name)

    def _look(self) -> None:
        """Is anything of the query again where there was nothing more of it?"""
        if self.cluster.is_query_over():
            return
        there = {agent.name: agent.pid for agent in self.agents}
        hosts = {each.name: host_of(each.endpoint) for each in self.cluster.managers}
        empty = {left.host for left in self._empty if there[left.host] == left.agent}
        back = [f"{i.subquery}/{i.index} at {i.im}" for i in self.cluster.current_plan().instances if hosts[i.im] in empty]
        may_come_back = self.cluster.work.recovers and not self.calm  # for nothing else was alive
        if back and not may_come_back and not self._has_no_refuge:
            self._wrong.append(f"of hosts that were empty and are being left, {sorted(empty)}, there is again {back}")

    def judge(self, cause: str, subquery: str, plan: PhysicalPlan) -> bool:
        """Has the query failed for a host that was left, and was that right?"""
        if not any(cause.startswith(f"host {agent.name!r} is leaving, and ") for agent in self.agents):
            return False
        why = why_it_stays(plan, subquery)
        never = cause.partition(" cannot go on elsewhere: ")[2]
        if never and never != why and not (never == NOWHERE and (self._was_nowhere or not self.calm)):
            self._wrong.append(f"the query failed, though it could have gone on elsewhere: {cause}")
        if not never and self.calm and not cause.endswith(ENDED):
            self._wrong.append(f"the query failed, though nothing kept it from going: {cause}")
        return True

    def complaints(self) -> Iterator[str]:
        yield from self._wrong
