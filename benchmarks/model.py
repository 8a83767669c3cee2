"""A model of the fixed window over the nodes of a Bullion S16: what its throughput might be, with NUMA awareness and without.

It is a model and no measurement, and is never printed beside one. What it assumes:

1. A core runs one instance manager: one instance that reads and picks, one of the window, of one of the query's replicas (18 cores).
2. Its CPU is the only limit. What a tuple, a message and a byte cost is measured on the machine that this runs on (`calibrate`), and
   nothing else is: a core of the Bullion is taken to be a core of this machine.
3. Tuples spread evenly over the instances of the window. A message has as many rows as the engine puts into one when there are many
   receivers; it takes CPU at both ends, and no time between them. Within a core nothing is sent, and nothing is paid.
4. Reading bytes from another node's memory takes distance / 10 times as long as reading them from one's own. Only the bytes of
   received messages are read from elsewhere: an instance's own memory, and the text it reads, are at home either way.
5. Links between nodes are never full. Nothing else runs, and no cache, clock or memory controller is shared.
6. A sender has at most two messages under way to each receiver (credit).
7. Aware: a replica on each node, as our planner places it. Not aware: as many cores, drawn over the whole machine, as an operating
   system that looks for idle cores might choose them.

Assumptions 4 and 5 leave out most of what awareness saves: the homes of heap, stack and threads, which the paper's baseline leaves
to the operating system, and the load of the links. So the gain is a lower bound, and its error against the paper is stated below.
"""

from __future__ import annotations

import heapq
import os
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.calibrate import Calibration, calibrate
from benchmarks.measured.placement import CORES, SEED
from cep.model.topology import OWN_DISTANCE, Topology

UNDER_WAY = 2
MESSAGES_PER_CORE = 200
WARM_UP = 0.2

#: The paper's Figure 13 as its text gives it: nodes -> tuples a second (not aware, aware).
FIGURE_13 = {1: (570_000, 670_000), 4: (2_630_000, 3_150_000), 8: (4_900_000, 6_170_000)}


@dataclass
class Core:
    """One instance manager at work: what has arrived, what is under way, whose turn it is."""

    node: int
    peers: list[int]  # the cores of its replica, itself among them
    turn: int
    inbox: deque[int] = field(default_factory=deque)  # of which core
    under_way: int = 0
    busy: bool = False


class ReplicaModel:
    """Replicas of the query on cores; a step is a message made or taken. Deterministic."""

    def __init__(self, seats: list[list[int]], topology: Topology, costs: Calibration) -> None:
        """`seats`: for each replica, the node of each of its cores."""
        self.topology, self.costs = topology, costs
        self.cores: list[Core] = []
        for nodes in seats:
            peers = list(range(len(self.cores), len(self.cores) + len(nodes)))
            self.cores += [Core(node, peers, turn=i + 1) for i, node in enumerate(nodes)]
        self.events: list[tuple[float, int, int, int]] = []  # when it is done (ns), core, of which it was made, for which
        self.taken = 0

    def throughput(self, messages: int = MESSAGES_PER_CORE) -> float:
        """Tuples a second, from the end of a warm-up on."""
        goal, warm, since = messages * len(self.cores), int(WARM_UP * messages * len(self.cores)), 0.0
        for number in range(len(self.cores)):
            self._start(number, 0.0)
        now = 0.0
        while self.taken < goal:
            now, number, source, target = heapq.heappop(self.events)
            self._done(number, source, target, now)
            since = now if self.taken <= warm else since
        return (goal - warm) * self.costs.message_rows / (now - since) * 1e9

    def _done(self, number: int, source: int, target: int, now: float) -> None:
        """Core `number` is done with a message from `source` to `target`: it has made it, or taken it."""
        core = self.cores[number]
        core.busy = False
        if target == number:
            self.taken += 1
            self.cores[source].under_way -= source != number
            self._start(source, now)
        else:
            self.cores[target].inbox.append(source)
            self._start(target, now)
        self._start(number, now)

    def _start(self, number: int, now: float) -> None:
        """Begins what there is to do: first what has arrived, else a new message, if a receiver may still get one."""
        core = self.cores[number]
        if core.busy:
            return
        if core.inbox:
            source = core.inbox.popleft()
            self._begin(number, source, number, now + self._taking(source, number))
        elif core.under_way < UNDER_WAY * (len(core.peers) - 1) or len(core.peers) == 1:
            target = core.peers[core.turn % len(core.peers)]
            core.turn += 1
            core.under_way += target != number
            self._begin(number, number, target, now + self._making(number, target))

    def _begin(self, number: int, source: int, target: int, end: float) -> None:
        self.cores[number].busy = True
        heapq.heappush(self.events, (end, number, source, target))

    def _making(self, number: int, target: int) -> float:
        """ns; for itself a core takes the tuples in the same turn."""
        costs = self.costs
        own = costs.message_rows * costs.read_ns
        return own + (costs.message_rows * costs.window_ns if target == number else self._message_ns())

    def _taking(self, source: int, number: int) -> float:
        costs = self.costs
        distance = self.topology.distance(self.cores[number].node, self.cores[source].node)
        farther = costs.message_rows * costs.tuple_bytes * costs.memory_byte_ns * (distance / OWN_DISTANCE - 1)
        return self._message_ns() + farther + costs.message_rows * costs.window_ns

    def _message_ns(self) -> float:
        return self.costs.message_ns + self.costs.message_rows * self.costs.tuple_bytes * self.costs.byte_ns


def aware(nodes: int, topology: Topology) -> list[list[int]]:
    """A replica on each of the first nodes."""
    return [[node.id] * len(node.cores) for node in topology.nodes[:nodes]]


def not_aware(nodes: int, topology: Topology, seed: int = SEED) -> list[list[int]]:
    """As many cores, drawn from all."""
    drawn = np.random.default_rng(seed).choice(topology.cores, nodes * CORES, replace=False).tolist()
    return [[topology.node_of(core) for core in drawn[at : at + CORES]] for at in range(0, len(drawn), CORES)]


@dataclass(frozen=True)
class Point:
    """The model's tuples a second over so many nodes."""

    nodes: int
    not_aware: float
    aware: float

    @property
    def gain(self) -> float:
        return self.aware / self.not_aware - 1


def curve(costs: Calibration, nodes: Iterable[int], messages: int = MESSAGES_PER_CORE) -> list[Point]:
    machine = Topology.bullion_s16()
    return [
        Point(
            n,
            ReplicaModel(not_aware(n, machine), machine, costs).throughput(messages),
            ReplicaModel(aware(n, machine), machine, costs).throughput(messages),
        )
        for n in nodes
    ]


def markdown(points: list[Point], costs: Calibration) -> str:
    """What the model says, and how far it is from the paper."""
    lines = [
        (__doc__ or "").strip(),
        "",
        f"Measured on this machine: {costs.describe()}.",
        "",
        "| nodes | model, not aware | model, aware | gain by awareness |",
        "|---|---|---|---|",
    ]
    lines += [f"| {p.nodes} | {p.not_aware / 1e6:.1f} M/s | {p.aware / 1e6:.1f} M/s | {p.gain:+.1%} |" for p in points]
    first = next((point for point in points if point.nodes == 1), None)
    return "\n".join([*lines, *(_errors(points, first) if first else ())])


def _errors(points: list[Point], first: Point) -> list[str]:
    """Against Figure 13. Absolute figures are another engine's on other cores: growth and gain can be compared."""
    lines = [
        "",
        "The model's error against Figure 13. Its tuples a second are those of another engine on other cores and are not compared; what",
        "is, is how throughput grows from one node, and what awareness gains.",
        "",
        "| nodes | growth, not aware: paper, model (error) | growth, aware: paper, model (error) | gain: paper, model (error in points) |",
        "|---|---|---|---|",
    ]
    for point in points:
        if point.nodes in FIGURE_13:
            paper, base = FIGURE_13[point.nodes], FIGURE_13[1]
            growths = [
                _growth(paper[0] / base[0], point.not_aware / first.not_aware),
                _growth(paper[1] / base[1], point.aware / first.aware),
            ]
            gain = paper[1] / paper[0] - 1
            lines.append(f"| {point.nodes} | {' | '.join(growths)} | {gain:+.1%}, {point.gain:+.1%} ({(point.gain - gain) * 100:+.1f}) |")
    return lines


def _growth(paper: float, model: float) -> str:
    return f"{paper:.2f}x, {model:.2f}x ({model / paper - 1:+.0%})"


def command(
    nodes: Annotated[int, typer.Option(min=1, max=16, help="up to how many")] = 8,
    calibration: Annotated[
        Path | None, typer.Option(help="figures measured before; where the file is not there they are measured and kept")
    ] = None,
) -> None:
    """Throughput over nodes, modelled from figures measured here; its assumptions and its error."""
    if calibration is not None and calibration.exists():
        costs = Calibration.read(calibration)
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        costs = calibrate(base / "cep-benchmarks" / "data")
        if calibration is not None:
            costs.write(calibration)
    print(markdown(curve(costs, range(1, nodes + 1)), costs))
