"""Where instances go: least traffic across NUMA distance, against every placement there is where there are few."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.errors import PlacementError
from cep.model.expr import col
from cep.model.hosts import HOST_DISTANCE, Machines
from cep.model.operators import Filter
from cep.model.query import Query
from cep.model.topology import NumaNode, Topology
from cep.plan.physical import PhysicalPlan, Worker, from_json, to_json
from cep.plan.place import PlacementProblem, Seats, best, distances, estimated, lots
from cep.plan.planner import plan, rewrites
from tests.support import plans
from tests.support.plans import figure_3, fixed_window, group, keep, pick, planned, query

BULLION = Topology.bullion_s16()


def where(made: PhysicalPlan, subquery: str) -> list[str]:
    return [instance.im for instance in made.instances_of(subquery)]


def nodes(made: PhysicalPlan) -> set[int | None]:
    return {worker.node for worker in made.workers}


@pytest.mark.parametrize("machine", [plans.one_node(4), plans.two_nodes(3), BULLION], ids=Topology.describe)
def test_instance_i_of_every_subquery_shares_core_i(machine: Topology) -> None:
    made = planned(fixed_window(), machine)
    assert where(made, "SQ1") == where(made, "SQ2") == [worker.im for worker in plans.workers(machine)]


def test_a_query_that_fits_a_node_stays_on_it() -> None:
    assert nodes(planned(fixed_window(parallelism=18), BULLION)) == {0}


def test_a_query_that_outgrows_a_node_takes_the_nearest() -> None:
    assert nodes(planned(fixed_window(parallelism=36), BULLION)) == {0, 1}


def test_the_baseline_takes_workers_in_turn_and_pays() -> None:
    """Round-robin over all workers: SQ2 begins where SQ1 ended."""
    made = planned(fixed_window(parallelism=2), plans.two_nodes(2), numa=False)
    assert (where(made, "SQ1"), where(made, "SQ2")) == (["im-000", "im-001"], ["im-002", "im-003"])
    assert made.cost > planned(fixed_window(parallelism=2), plans.two_nodes(2)).cost


def test_more_instances_than_workers_are_spread_evenly() -> None:
    made = planned(fixed_window(parallelism=5), plans.one_node(2))
    assert sorted(where(made, "SQ1").count(im) for im in ("im-000", "im-001")) == [2, 3]


def test_a_queue_of_queries_spreads_over_the_cores_with_room() -> None:
    """Each query takes of the capacity of the worker it is put on; the next goes elsewhere."""
    machine, placed = plans.one_node(4), []
    crowd = {worker.im: worker for worker in plans.workers(machine)}
    for _ in range(8):
        made = plan(fixed_window(parallelism=1), {}, crowd.values(), machine)
        (im,) = {instance.im for instance in made.instances}
        placed.append(im)
        crowd[im] = replace(crowd[im], capacity=crowd[im].capacity / 2)
    assert sorted(placed) == sorted(2 * list(crowd))


def test_a_busy_node_is_left_alone() -> None:
    machine = plans.two_nodes(2)
    busy = [replace(worker, capacity=0.2 if worker.node == 0 else 1.0) for worker in plans.workers(machine)]
    assert nodes(plan(fixed_window(parallelism=2), {}, busy, machine)) == {1}


def test_replicas_take_the_nodes_with_the_most_room() -> None:
    machine = Topology(tuple(NumaNode(i, (i,), 0) for i in range(3)), ((10, 20, 20), (20, 10, 20), (20, 20, 10)))
    busy = [replace(worker, capacity=(0.1, 1.0, 1.0)[worker.core or 0]) for worker in plans.workers(machine)]
    assert nodes(plan(fixed_window(replicas=2), {}, busy, machine)) == {1, 2}


def test_workers_that_are_not_bound_are_far_from_everything() -> None:
    unbound = [Worker(f"im-{i}", None, None, f"ipc:///tmp/{i}") for i in range(2)]
    made = plan(fixed_window(), {}, unbound, plans.one_node(2))
    assert where(made, "SQ1") == where(made, "SQ2") == ["im-0", "im-1"]


def test_the_plan_does_not_depend_on_the_order_of_workers() -> None:
    machine = plans.two_nodes(3)
    there = plans.workers(machine)
    for numa in (True, False):
        one, other = (to_json(plan(figure_3(), {}, order, machine, numa=numa)) for order in (there, there[::-1]))
        assert one == other


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ((), "no instance manager can take query 'per-ip'; start one"),
        (plans.workers(plans.one_node(2), 0.0), "for the 2 there are"),
    ],
)
def test_somebody_has_to_run_it(there: tuple[Worker, ...], message: str) -> None:
    with pytest.raises(PlacementError, match=message):
        plan(fixed_window(), {}, there, plans.one_node(2))


def test_a_worker_at_a_node_that_the_topology_lacks() -> None:
    with pytest.raises(ValueError, match="node 7 is not in this topology"):
        plan(fixed_window(), {}, [Worker("im", 7, 0, "ipc:///tmp/0")], plans.one_node(1))


#: It takes longer to read from node 1 at node 0 than the other way round.
LOPSIDED = Topology(tuple(NumaNode(i, (i,), 0) for i in range(3)), ((10, 40, 25), (20, 10, 15), (35, 30, 10)))


def test_the_distance_is_that_of_the_receiver_to_what_was_sent() -> None:
    assert distances(plans.workers(LOPSIDED), Machines.of(LOPSIDED)).tolist() == [[0, 20, 35], [40, 0, 30], [25, 15, 0]]


def test_replicas_cost_what_one_does_on_average() -> None:
    one, two = planned(fixed_window(parallelism=2), plans.one_node(2)), planned(fixed_window(parallelism=2, replicas=2), plans.two_nodes(2))
    assert two.cost == one.cost > 0


def test_traffic_is_estimated() -> None:
    made = planned(query(pick("m", "s"), group("a", "m", "ip"), keep("f", "m"), pre_aggregation="on"))
    assert estimated(made) == pytest.approx({">s": 1, "m>a": 0.2, "a>a_out": 0.1, "f>f_out": 1})


# --- against every placement -----------------------------------------------------------------------------------------


def unplaced(asked: Query, machine: Topology, capacities: tuple[float, ...]) -> PhysicalPlan:
    """Everything but the last rewrite."""
    there = tuple(replace(w, capacity=c) for w, c in zip(plans.workers(machine), capacities, strict=False))
    made = PhysicalPlan(asked, {stream.name: stream for stream in asked.streams}, workers=there)
    for rewrite in rewrites(machine)[:-1]:
        made = rewrite(made)
    return made


def every(problem: PlacementProblem) -> list[Seats]:
    """Every placement with no second instance at a worker before all have one; sizes up to the number of workers."""
    choices = ([np.array(p) for p in permutations(range(problem.width), size)] for size in problem.sizes)
    return [list(seats) for seats in product(*choices)]


SMALL = (
    fixed_window(),
    query(pick("m", "s"), keep("f", "m"), split="per-operator", balancers={"f": "point-to-point"}),
    query(group("a", "s"), Filter("f", "a", col("n") > 0), split="per-operator"),
    query(pick("m", "s"), group("a", "m", "ip"), group("b", "m", "url")),
)


@given(
    asked=st.sampled_from(SMALL),
    parallelism=st.integers(1, 3),
    machine=st.sampled_from((plans.two_nodes(1), plans.one_node(3), plans.two_nodes(2), plans.two_nodes(2, away=11))),
    capacities=st.lists(st.sampled_from((1.0, 0.5, 0.1)), min_size=4, max_size=4),
)
def test_no_placement_is_cheaper(asked: Query, parallelism: int, machine: Topology, capacities: list[float]) -> None:
    size = min(parallelism, len(machine.cores))
    made = unplaced(replace(asked, options=replace(asked.options, parallelism=size)), machine, tuple(capacities))
    (lot,) = lots(made)
    problem = PlacementProblem(made, lot, Machines.of(machine))
    least = min(problem.total(seats) for seats in every(problem))
    assert problem.total(best(problem)) <= least + 1e-6


@pytest.mark.parametrize("asked", SMALL)
def test_a_place_costs_by_how_much_the_total_changes(asked: Query) -> None:
    """Both ways of a distance count: an instance hears from others, and is heard."""
    made = unplaced(replace(asked, options=replace(asked.options, parallelism=1)), LOPSIDED, (1.0, 0.5, 0.1))
    (lot,) = lots(made)
    problem = PlacementProblem(made, lot, Machines.of(LOPSIDED))
    for seats in every(problem):
        for which, (place,) in enumerate(seats):
            (prices,) = problem.prices(seats, which)
            for target in range(problem.width):
                moved = [*seats[:which], np.array([target]), *seats[which + 1 :]]
                assert problem.total(moved) - problem.total(seats) == pytest.approx(prices[target] - prices[place])


@settings(deadline=None)
@given(asked=plans.queries(), machine=plans.machines(), numa=st.booleans())
def test_rules(asked: Query, machine: Topology, numa: bool) -> None:
    made = planned(asked, machine, numa=numa)
    for subquery in made.subqueries:
        hosts = where(made, subquery.name)
        assert len(hosts) == subquery.parallelism
        assert max(map(hosts.count, hosts)) <= -(-len(hosts) // len(machine.cores))
    assert {worker.im for worker in made.workers} == {instance.im for instance in made.instances}
    assert made.cost >= 0


# --- several hosts


def on_hosts(*names: str, capacity: float = 1.0) -> list[Worker]:
    """Two instance managers bound to node 0 of each."""
    return [Worker(f"{host}.im-{i}", 0, i, f"link://{host}@10.0.0.1:{i + 1}/{i}", capacity, host) for host in names for i in (0, 1)]


TWO_HOSTS = Machines({"h1": plans.one_node(2), "h2": plans.one_node(2)})


def test_another_host_is_farther_than_any_node() -> None:
    one, other, bound = ("h1", 0), ("h2", 0), Machines({"h1": BULLION, "h2": BULLION})
    assert TWO_HOSTS.distance(one, other) == HOST_DISTANCE > max(map(max, BULLION.distances))
    assert bound.distance(("h1", 0), ("h1", 1)) == 15 and bound.distance(("h1", 0), ("h2", 1)) == HOST_DISTANCE
    assert bound.distance(("h1", None), ("h1", 3)) == 40, "what is not bound may be anywhere on its host"
    assert bound.distance(("h9", 0), ("h9", 5)) == 10, "a host that is not known counts as one node"


def test_a_query_that_fits_a_host_stays_on_it() -> None:
    made = plan(fixed_window(parallelism=2), {}, on_hosts("h2", "h1"), TWO_HOSTS)
    assert {worker.host for worker in made.workers} == {"h1"}


def test_a_query_for_all_instance_managers_is_on_all_hosts_and_packed_on_one() -> None:
    everywhere = plan(fixed_window(), {}, on_hosts("h1", "h2"), TWO_HOSTS)
    assert where(everywhere, "SQ1") == where(everywhere, "SQ2") == ["h1.im-0", "h1.im-1", "h2.im-0", "h2.im-1"]
    crowded = [*on_hosts("h1", capacity=0.2), *on_hosts("h2")]
    packed = plan(fixed_window(hosts="packed"), {}, crowded, TWO_HOSTS)
    assert {worker.host for worker in packed.workers} == {"h2"}
    in_turn_ = plan(fixed_window(hosts="packed"), {}, crowded, TWO_HOSTS, numa=False)
    assert {worker.host for worker in in_turn_.workers} == {"h2"}


def test_a_query_for_so_many_hosts_is_on_those_with_the_most_room() -> None:
    there, machines = [*on_hosts("h1", capacity=0.2), *on_hosts("h2", "h3")], Machines(dict.fromkeys(("h1", "h2", "h3"), plans.one_node(2)))
    for numa in (True, False):
        made = plan(fixed_window(hosts=2), {}, there, machines, numa=numa)
        assert {worker.host for worker in made.workers} == {"h2", "h3"}
    assert {worker.host for worker in plan(fixed_window(hosts=9), {}, there, machines).workers} == {"h1", "h2", "h3"}


def test_replicas_take_nodes_of_different_hosts() -> None:
    made = plan(fixed_window(replicas=2), {}, on_hosts("h1", "h2"), TWO_HOSTS)
    homes = {worker.im: worker.host for worker in made.workers}
    by_replica = {instance.replica: {homes[i.im] for i in made.instances if i.replica == instance.replica} for instance in made.instances}
    assert sorted(map(sorted, by_replica.values())) == [["h1"], ["h2"]]


def test_a_plan_with_hosts_survives_json() -> None:
    made = plan(fixed_window(), {}, on_hosts("h1", "h2"), TWO_HOSTS)
    assert to_json(from_json(to_json(made))) == to_json(made)
