"""What our placement costs on the paper's Bullion S16, against round-robin and random, for the HiBench queries.

The cost is the planner's own: traffic times distance, summed over channels, in units of one stream's traffic; 10 is a hop within a
node, 15 to the paired one, 40 to any other, 0 within a core. The machine has 288 instance managers, one for each core; a query
takes as many of them as n nodes have cores, either spread (each subquery has 18n instances) or as n replicas of 18 instances, each
on a node of its own. What is outside of a query, publishers and subscribers, has no place and costs nothing; so does a query of a
single subquery, whose tuples never cross from one instance manager to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import mean
from typing import Annotated

import numpy as np
import typer

from cep.model.hosts import Machines
from cep.model.query import Query as QueryValue
from cep.model.streams import Stream
from cep.model.topology import Topology
from cep.plan.physical import PhysicalPlan, Worker
from cep.plan.place import PlacementProblem, Seats, lots
from cep.plan.planner import plan, rewrites
from driver import SIZE, TIME, Query, col, count, first, last, now, stream

CORES = 18
DRAWS = 20
SEED = 7


@dataclass(frozen=True)
class Cost:
    """Of one query over so many nodes, by each way to place it."""

    query: str
    nodes: int
    shape: str
    ours: float
    in_turn: float
    random: float


def _visits() -> Stream:
    return stream("visits", ip=str, word=str, ts="timestamp[ms]", event_time="ts", disorder="2s")


def _same(query: Query, name: str) -> Query:
    return query.map(name, ip=col("ip"), word=col("word"), ts=col("ts"))


def identity() -> Query:
    """The paper's first workload: a map that changes nothing."""
    return _same(Query("identity").source(_visits()), "same").output("answers")


def repartition() -> Query:
    """The second: the same behind a round-robin balancer."""
    begun = _same(_same(Query("repartition").source(_visits()), "read"), "same")
    return begun.output("answers").options(split="per-operator", balancers={"same": "round-robin"})


def word_count() -> Query:
    """The third: words picked, then counted over windows of so many tuples of each."""
    picked = Query("wordcount").source(_visits()).map("pick", word=col("word"))
    return picked.aggregate("counts", SIZE(100), by="word", n=count()).output("answers")


def fixed_window() -> Query:
    """The fourth, the paper's Figure 12. All rows are exchanged, as in the paper."""
    picked = Query("fixed-window").source(_visits()).map("pick", ip=col("ip"), ts=col("ts"))
    grouped = picked.aggregate("window", TIME("30s"), by="ip", visits=count(), start=first("ts"), end=last("ts"))
    fields = {name: col(name) for name in ("ip", "visits", "start", "end")}
    return grouped.map("stamp", fields, emitted=now()).output("answers").options(pre_aggregation="off")


QUERIES: tuple[Callable[[], Query], ...] = (identity, repartition, word_count, fixed_window)


def workers(topology: Topology) -> tuple[Worker, ...]:
    """An instance manager on each core."""
    return tuple(Worker(f"im-{core:03}", node.id, core, f"ipc:///im-{core:03}") for node in topology.nodes for core in node.cores)


def costs(made: Query, nodes: int, shape: str, topology: Topology, draws: int = DRAWS) -> Cost:
    """`shape` is "spread" or "replicas"."""
    size = {"parallelism": CORES, "replicas": nodes} if shape == "replicas" else {"parallelism": CORES * nodes}
    query = made.options(**size).build()
    there = workers(topology)
    ours, turn = (plan(query, {}, there, topology, numa=numa).cost for numa in (True, False))
    unplaced = _unplaced(query, there, topology)
    generator = np.random.default_rng(SEED)
    return Cost(query.name, nodes, shape, ours, turn, mean(_at_random(unplaced, topology, generator) for _ in range(draws)))


def _unplaced(query: QueryValue, there: tuple[Worker, ...], topology: Topology) -> PhysicalPlan:
    """Everything but the last step of planning."""
    made = PhysicalPlan(query, {each.name: each for each in query.streams}, workers=there, numa=False)
    for rewrite in rewrites(topology)[:-1]:
        made = rewrite(made)
    return made


def _at_random(unplaced: PhysicalPlan, topology: Topology, generator: np.random.Generator) -> float:
    """Each replica's cost where every subquery's instances are at workers drawn from all, none twice before all had one."""
    problems = [PlacementProblem(unplaced, lot, Machines.of(topology)) for lot in lots(unplaced)]
    return mean(problem.cost(_drawn(problem, generator)) for problem in problems)


def _drawn(problem: PlacementProblem, generator: np.random.Generator) -> Seats:
    return [generator.permutation(problem.width)[np.arange(size) % problem.width] for size in problem.sizes]


def table(nodes: Iterable[int], draws: int = DRAWS) -> list[Cost]:
    """Of every query, over so many nodes, spread and as replicas."""
    topology = Topology.bullion_s16()
    shapes = ("spread", "replicas")
    return [costs(make(), count_, shape, topology, draws) for make in QUERIES for count_ in nodes for shape in shapes]


def markdown(found: Iterable[Cost]) -> str:
    lines = ["| query | nodes | instances | ours | round-robin | random (mean) |", "|---|---|---|---|---|---|"]
    for cost in found:
        how = "spread" if cost.shape == "spread" else f"{cost.nodes} replicas"
        lines.append(f"| {cost.query} | {cost.nodes} | {how} | {cost.ours:.2f} | {cost.in_turn:.2f} | {cost.random:.2f} |")
    return "\n".join(lines)


def command(nodes: Annotated[int, typer.Option(min=1, max=16, help="up to how many")] = 8) -> None:
    """The cost of our placement on the Bullion S16 against round-robin and random."""
    print(f"Traffic times distance on {Topology.bullion_s16().describe()}; random: mean of {DRAWS} draws, seed {SEED}.\n")
    print(markdown(table(range(1, nodes + 1))))
