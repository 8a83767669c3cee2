"""Puts every instance on an instance manager: least traffic across NUMA distance (rule 6.5).

What is minimised, for each replica, is

    cost + crowding = Σ over channels of traffic · distance  +  Σ over workers of load² / capacity

where no worker gets a second instance of a subquery before every worker has one. Distances are those of the topology, 10
within a node, and of two hosts (`cep.model.hosts`); inside one worker it is 0, so instances that talk much share a core.
Capacity is relative to the idlest worker's. Crowding keeps queries from piling up on the first core: beside a distance it is
small, so it decides between places that are equally near, or where one is much busier than another.

Traffic is estimated in units of what one stream brings, before anything has run: an operator yields what it says of itself
(`expected_yield`: an Aggregate a tenth of what it reads), a partial stage a fifth (PARTIAL). The load of an instance is what
comes into it. What is outside the plan, publishers and subscribers, has no known place and costs nothing.

The search starts from each node in turn, with workers in order of distance, and from the emptiest workers; then it
moves one subquery at a time, all its instances at once, as long as that gains. `numa=False` is the paper's baseline:
in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from cep.errors import PlacementError
from cep.model.hosts import Machines
from cep.plan.physical import Edge, Instance, PhysicalPlan, Worker, channel_pairs
from cep.plan.split import topological

PARTIAL = 0.2
GAIN_MIN = 1e-9  # less is rounding
STARTS_MAX = 4
PRICES_MAX = 10_000
"""Subqueries and links that are looked at in a search, some 50 ms. Of 50 subqueries in a row each is tried twice."""

Floats = npt.NDArray[np.float64]
Seats = list[npt.NDArray[np.intp]]
"""For each subquery, the position of each instance's worker in its lot."""


def place(plan: PhysicalPlan, machines: Machines) -> PhysicalPlan:
    """Adds instances and cost, and keeps the workers that host one.

    Raises:
        PlacementError: no instance manager, or more replicas than there are.
        ValueError: a worker's node is not in the topology of its host.
    """
    instances: list[Instance] = []
    cost = 0.0
    for replica, lot in enumerate(lots(plan)):
        problem = PlacementProblem(plan, lot, machines)
        seats = best(problem) if plan.numa else in_turn(problem)
        cost += problem.cost(seats) / plan.query.options.replicas
        instances += _instances(plan, replica, lot, seats)
    order = {subquery.name: i for i, subquery in enumerate(plan.subqueries)}
    instances.sort(key=lambda instance: (order[instance.subquery], instance.index))
    hosts = {instance.im for instance in instances}
    workers = tuple(worker for lot in lots(plan) for worker in lot if worker.im in hosts)
    return replace(plan, instances=tuple(instances), workers=workers, cost=round(cost, 6))


def _instances(plan: PhysicalPlan, replica: int, lot: Sequence[Worker], seats: Seats) -> Iterator[Instance]:
    for subquery, places in zip(plan.subqueries, seats, strict=True):
        for i, place_ in enumerate(places):
            yield Instance(subquery.name, replica * subquery.parallelism + i, lot[place_].im, replica)


# --- what is there ---------------------------------------------------------------------------------------------------


def lots(plan: PhysicalPlan) -> tuple[tuple[Worker, ...], ...]:
    """The workers of each replica, in a fixed order; where there are several replicas, each on one node.

    Raises:
        PlacementError: no instance manager, or more replicas than there are.
    """
    workers = [worker for worker in plan.workers if worker.capacity > 0]
    if not workers:
        full = f", for the {len(plan.workers)} there are may not be shared (option exclusive)" if plan.workers else ""
        raise PlacementError(f"no instance manager can take query {plan.query.name!r}{full}; start one")
    if plan.query.options.hosts_max is not None:
        workers = _on_roomiest_hosts(workers, plan.query.options.hosts_max)
    _check_room(workers, plan.query.options.replicas)
    if not plan.numa:
        return _dealt(sorted(workers, key=lambda worker: (-worker.capacity, worker.im)), plan.query.options.replicas)
    workers.sort(key=lambda worker: (worker.host, _number(worker.node), _number(worker.core), worker.im))
    return (tuple(workers),) if plan.query.options.replicas == 1 else _by_node(workers, plan.query.options.replicas)


def _on_roomiest_hosts(workers: Sequence[Worker], most: int) -> list[Worker]:
    """Those of so many hosts, with the most capacity left."""
    room: dict[str, float] = {}
    for worker in workers:
        room[worker.host] = room.get(worker.host, 0.0) + worker.capacity
    chosen = set(sorted(room, key=lambda host: (-room[host], host))[:most])
    return [worker for worker in workers if worker.host in chosen]


def _check_room(workers: Sequence[Worker], replicas: int) -> None:
    if replicas > len(workers):
        raise PlacementError(f"replicas={replicas}, but there are {len(workers)} instance managers; each replica needs one")


def _dealt(workers: Sequence[Worker], replicas: int) -> tuple[tuple[Worker, ...], ...]:
    return tuple(tuple(workers[replica::replicas]) for replica in range(replicas))


def _by_node(workers: Sequence[Worker], replicas: int) -> tuple[tuple[Worker, ...], ...]:
    """The nodes with the most capacity, one for each replica; where there are fewer nodes, replicas share them."""
    nodes: dict[tuple[str, int], list[Worker]] = {}
    for worker in workers:
        nodes.setdefault((worker.host, _number(worker.node)), []).append(worker)
    fullest = sorted(nodes, key=lambda node: (-sum(worker.capacity for worker in nodes[node]), node))
    each = dict.fromkeys(fullest, 0)
    for _ in range(replicas):
        node = min((node for node in fullest if each[node] < len(nodes[node])), key=lambda node: each[node])
        each[node] += 1
    return tuple(lot for node in sorted(fullest) if each[node] for lot in _dealt(nodes[node], each[node]))


def _number(id: int | None) -> int:
    """Unbound comes first."""
    return -1 if id is None else id


# --- what it costs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlacedEdge:
    """An inner edge, its subqueries by position: `traffic` in all, `mesh` if each instance sends to each."""

    source: int
    target: int
    traffic: float
    pairs: tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]
    mesh: bool


class PlacementProblem:
    """One replica: what is to be placed where, and what a placement costs."""

    def __init__(self, plan: PhysicalPlan, lot: Sequence[Worker], machines: Machines) -> None:
        self.sizes = [subquery.parallelism for subquery in plan.subqueries]
        self.distance = distances(lot, machines)  # float64[from worker, to worker]
        capacity = np.array([worker.capacity for worker in lot], np.float64)
        self.capacity = capacity / capacity.max()  # where all are equally busy, distance decides as where all are idle
        traffic = estimated(plan)
        position = {subquery.name: i for i, subquery in enumerate(plan.subqueries)}
        self.loads = [sum(traffic[edge.name] for edge in plan.edges_into(s.name)) / s.parallelism for s in plan.subqueries]
        self.links = [
            _link(position[edge.source], position[edge.target], traffic[edge.name], edge, self.sizes)
            for edge in plan.edges
            if edge.is_inner
        ]

    @cached_property
    def width(self) -> int:
        """How many workers there are."""
        return len(self.capacity)

    def cost(self, seats: Seats) -> float:
        """Σ traffic · distance."""
        return sum((self._cost(link, seats) for link in self.links), 0.0)

    def total(self, seats: Seats) -> float:
        """Cost and crowding: what the search minimises."""
        load = self.load(seats)
        return self.cost(seats) + float((load * load / self.capacity).sum())

    def load(self, seats: Seats, without: int | None = None) -> Floats:
        """float64[workers]; leaving out one subquery, by position, if asked."""
        load = np.zeros(self.width)
        for i, places in enumerate(seats):
            if i != without:
                np.add.at(load, places, self.loads[i])
        return load

    def prices(self, seats: Seats, which: int) -> Floats:
        """What each worker would cost each instance of one subquery, the rest staying: float64[instances, workers]."""
        load, own = self.load(seats, without=which), self.loads[which]
        prices = np.tile((2 * load + own) * own / self.capacity, (self.sizes[which], 1))
        for link in self.links:
            if link.source == which:
                self._add_prices(prices, link, self.distance[:, seats[link.target]].T, *link.pairs)
            if link.target == which:
                self._add_prices(prices, link, self.distance[seats[link.source]], *link.pairs[::-1])
        return prices

    def _cost(self, link: PlacedEdge, seats: Seats) -> float:
        sources, targets = link.pairs
        distance = self.distance[seats[link.source][sources], seats[link.target][targets]]
        return link.traffic * float(distance.mean())

    @staticmethod
    def _add_prices(prices: Floats, link: PlacedEdge, distance: Floats, own: npt.NDArray[np.intp], others: npt.NDArray[np.intp]) -> None:
        """`distance` is from each instance at the other end to each worker."""
        per_channel = link.traffic / len(own)
        if link.mesh:
            prices += per_channel * distance.sum(axis=0)
        else:
            np.add.at(prices, own, per_channel * distance[others])


def _link(source: int, target: int, traffic: float, edge: Edge, sizes: Sequence[int]) -> PlacedEdge:
    pairs = np.array(channel_pairs(edge.balancer, sizes[source], sizes[target]), np.intp)
    return PlacedEdge(source, target, traffic, (pairs[:, 0], pairs[:, 1]), len(pairs) == sizes[source] * sizes[target])


def distances(workers: Sequence[Worker], machines: Machines) -> Floats:
    """float64[from, to]: the receiver's core reads what the sender's node holds; 0 within a worker."""
    places = {worker.place for worker in workers}
    between = {(a, b): machines.distance(a, b) for a in places for b in places}
    matrix = np.array([[between[source.place, target.place] for target in workers] for source in workers], np.float64)
    np.fill_diagonal(matrix, 0.0)
    return matrix


def estimated(plan: PhysicalPlan) -> dict[str, float]:
    """Traffic by name of edge, in units of what one stream brings."""
    flow = dict.fromkeys(plan.streams, 1.0)
    for name, operator in topological(plan.query).items():
        taken = sum(flow[input_] for input_ in operator.inputs)
        flow[name] = taken * operator.expected_yield
    return {edge.name: flow[edge.producer] * (PARTIAL if edge.partial else 1.0) for edge in plan.edges}


# --- the search ------------------------------------------------------------------------------------------------------


def in_turn(problem: PlacementProblem) -> Seats:
    """Instances to workers one after the other, whatever they say to each other."""
    starts = np.cumsum([0, *problem.sizes])
    return [(start + np.arange(size)) % problem.width for start, size in zip(starts, problem.sizes, strict=False)]


def best(problem: PlacementProblem) -> Seats:
    """The cheapest of the placements to which the most promising starts lead; the first of equals."""
    starts = sorted(_starts(problem), key=problem.total)[:STARTS_MAX]
    different = {tuple(place.tobytes() for place in seats): seats for seats in starts}  # where all workers are alike, so are some of these
    return min(map(partial(improved, problem), different.values()), key=lambda seats: round(problem.total(seats), 6))


def _starts(problem: PlacementProblem) -> Iterator[Seats]:
    """Instance i of every subquery at the i-th worker, in order of their distance from each place to begin."""
    workers = np.arange(problem.width)
    for near in np.unique(problem.distance + np.diag(np.full(problem.width, 10.0)), axis=0):
        for keys in ((workers, -problem.capacity, near), (workers, near, -problem.capacity)):
            order = np.lexsort(keys)
            yield [order[np.arange(size) % problem.width] for size in problem.sizes]


def improved(problem: PlacementProblem, seats: Seats) -> Seats:
    """Moves one subquery at a time for as long as that lowers the total; of hundreds not all, for the orchestrator waits for the plan."""
    total = problem.total(seats)
    gained, left = True, PRICES_MAX // (len(seats) + len(problem.links))
    while gained and left > 0:
        gained = False
        for which in range(len(seats))[:left]:
            left -= 1
            places = _cheapest(problem, seats, which)
            if np.array_equal(places, seats[which]):
                continue
            moved = [*seats[:which], places, *seats[which + 1 :]]
            after = problem.total(moved)
            if after < total - GAIN_MIN:
                seats, total, gained = moved, after, True
    return seats


def _cheapest(problem: PlacementProblem, seats: Seats, which: int) -> npt.NDArray[np.intp]:
    """Each instance in turn at its cheapest worker with room, staying where that costs the same."""
    prices = problem.prices(seats, which)
    prices[np.arange(len(prices)), seats[which]] -= GAIN_MIN
    room = np.full(problem.width, -(-len(prices) // problem.width))
    chosen = np.empty(len(prices), np.intp)
    for i, row in enumerate(prices):
        chosen[i] = np.argmin(np.where(room > 0, row, np.inf))
        room[chosen[i]] -= 1
    return chosen
