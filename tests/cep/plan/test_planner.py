"""The plan as a whole: a pure function of its arguments, its JSON, its look-ups, its channels.

Tests `planner.py`, `physical.py`.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.errors import ProtocolError, QueryError
from cep.model import query as queries
from cep.model.functions import count
from cep.model.limits import OPERATORS_MAX
from cep.model.operators import Aggregate
from cep.model.query import Options, Output, Query
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.model.topology import Topology
from cep.model.windows import TimeWindow
from cep.plan.channels import ChannelId
from cep.plan.checkpoints import recovers
from cep.plan.physical import Edge, PhysicalPlan, Worker, from_json, to_json
from cep.plan.planner import plan
from cep.plan.split import topological
from tests.support import plans
from tests.support.plans import figure_3, files, fixed_window, group, keep, pick, planned, query, two_nodes

PLANS = st.builds(planned, plans.queries(), plans.machines(), numa=st.booleans())


@settings(deadline=None)
@given(made=PLANS)
def test_a_plan_survives_json(made: PhysicalPlan) -> None:
    document = to_json(made)
    again = from_json(json.loads(json.dumps(document)))
    assert to_json(again) == document
    assert (again.subqueries, again.edges, again.instances, again.workers) == (
        made.subqueries,
        made.edges,
        made.instances,
        made.workers,
    )
    assert (again.files, again.notes, again.cost, again.numa) == (made.files, made.notes, made.cost, made.numa)


def test_tables_and_files_survive_json() -> None:
    made = planned(query(pick("m", "s"), declared=(files("s"),)), files={"s": (("/data/a.txt", 12), ("/data/b.txt", 0))})
    edges = (replace(made.edges[0], balancer="route-key", fields=("ip",), table=(0, 1, 1, 0)), *made.edges[1:])
    again = from_json(json.loads(json.dumps(to_json(replace(made, edges=edges, buckets=4)))))
    assert again.edges == edges
    assert again.files == {"s": (("/data/a.txt", 12), ("/data/b.txt", 0))}


@pytest.mark.parametrize("document", [None, {}, {"query": {}}, to_json(planned(fixed_window())) | {"edges": [{"speed": 1}]}])
def test_what_is_no_plan_is_refused(document: object) -> None:
    with pytest.raises(ProtocolError, match="not a plan of this version"):
        from_json(document)


@settings(deadline=None)
@given(asked=plans.queries(), machine=plans.machines(), numa=st.booleans(), data=st.data())
def test_planning_is_deterministic(asked: Query, machine: Topology, numa: bool, data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(plans.workers(machine)))
    assert to_json(plan(asked, {}, shuffled, machine, numa)) == to_json(planned(asked, machine, numa=numa))


@settings(deadline=None)
@given(made=PLANS)
def test_channels_join_instances_that_exist(made: PhysicalPlan) -> None:
    for edge in made.edges:
        channels = made.channels(edge)
        assert len(set(channels)) == len(channels) > 0
        if not edge.is_input:
            assert {i for i, _ in channels} == {i.index for i in made.instances_of(edge.source)}
        if not edge.is_output:
            receivers = {j for _, j in channels}
            assert receivers == {i.index for i in made.instances_of(edge.target)}


@settings(deadline=None)
@given(made=PLANS)
def test_names_of_channels_are_unique(made: PhysicalPlan) -> None:
    names = [ChannelId("q", edge.name, i, j).canonical for edge in made.edges for i, j in made.channels(edge)]
    assert len(set(names)) == len(names)


def test_names_of_channels_are_unique_whatever_operators_are_called() -> None:
    """Joined by the sign between them, a>b and c would be a and b>c."""
    stream = Stream("s", Schema.of({"k": "string"}), files=None)
    operators = tuple(
        Aggregate(name, input_, TimeWindow(5, 5), ("k",), (("n", count()),))
        for name, input_ in (("a", "s"), ("a>b", "s"), ("b>c", "a"), ("c", "a>b"), ("~2", "a"), (">", "a"))
    )
    outputs = tuple(Output(f"to {name}", name) for name in ("b>c", "c", "~2", ">"))
    made = planned(Query("q", (stream,), operators, outputs))
    names = [edge.name for edge in made.edges]
    assert len(set(names)) == len(names)
    assert ChannelId("q/a", "b>c", 0, 0).canonical != ChannelId("q", "a/b>c", 0, 0).canonical


@settings(deadline=None)
@given(made=PLANS)
def test_every_input_comes_from_inside_or_by_one_edge(made: PhysicalPlan) -> None:
    for name, operator in topological(made.query).items():
        home = made.subquery_of(name)
        for port, producer in enumerate(operator.inputs):
            inside = producer in home.operators + home.streams
            assert len([e for e in made.edges_into(home.name) if (e.consumer, e.port) == (name, port)]) == (not inside)


@settings(deadline=None)
@given(made=PLANS)
def test_edges_of_each_kind(made: PhysicalPlan) -> None:
    """One into the reading of each stream, one for each output, one for the late rows of each stream."""
    assert sorted(e.source for e in made.edges if e.is_input) == sorted(made.streams)
    outputs = {(e.producer, e.consumer) for e in made.edges if e.is_output and not e.late}
    assert outputs == {(output.input, output.stream) for output in made.query.outputs}
    late = {e.producer: e.consumer for e in made.edges if e.late}
    assert late == ({} if made.query.late is None else dict.fromkeys(made.streams, "late"))
    assert all(e.is_input + e.is_inner + e.is_output == 1 for e in made.edges)


@settings(deadline=None)
@given(made=PLANS)
def test_partials_are_made_where_they_are_sent(made: PhysicalPlan) -> None:
    made_at = {(s.name, aggregate) for s in made.subqueries for aggregate in s.pre_aggregates}
    assert made_at == {(edge.source, edge.consumer) for edge in made.edges if edge.partial}


def test_look_ups() -> None:
    made = planned(fixed_window())
    edge = Edge("pick>window", "SQ1", "pick", "SQ2", "window", 0, "route-key", ("ip",), partial=True)
    assert made.edges_into("SQ2") == made.edges_out_of("SQ1") == (edge,)
    assert made.subquery_of("stamp") is made.subquery("SQ2")
    assert made.subquery_of("visits").streams == ("visits",)
    assert made.worker_of(made.instances_of("SQ2")[1]) == Worker("im-001", 0, 1, "ipc:///tmp/1")
    assert made.channels(edge) == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert str(ChannelId("per-ip", edge.name, 0, 1)) == "per-ip/pick>window/0>1"


def test_late_rows_have_an_edge_of_their_own() -> None:
    made = planned(replace(fixed_window(), late="too_late"))
    (late,) = made.late_edges("SQ1")
    assert (late.producer, late.consumer, late.is_output) == ("visits", "too_late", True)
    assert late not in made.edges_out_of("SQ1")


def test_a_stream_stamped_at_ingestion_has_no_late_rows() -> None:
    asked = replace(query(pick("m", "s"), declared=(Stream("s", plans.SCHEMA),)), late="too_late")
    assert not [edge for edge in planned(asked).edges if edge.late]


def test_streams_that_others_declared() -> None:
    asked = fixed_window()
    known = {stream.name: stream for stream in asked.streams}
    machine = plans.one_node(2)
    made = plan(replace(asked, streams=()), known, plans.workers(machine), machine)
    assert (made.streams, made.edges) == (known, planned(asked).edges)


def test_no_query_is_refused_before_anything_is_planned() -> None:
    with pytest.raises(QueryError, match="reads 'visits', which is no operator and no declared stream"):
        planned(replace(fixed_window(), streams=()))


def test_no_files() -> None:
    made = planned(query(pick("m", "s"), declared=(files("s"),)))
    assert made.notes == ("stream 's' is read from files, and none was found",)


def test_a_plan_for_the_bullion_fits_a_zookeeper_node() -> None:
    """288 instance managers; ZooKeeper takes 1 MiB."""
    machine = Topology.bullion_s16()
    assert len(json.dumps(to_json(planned(figure_3(), machine)))) < 1 << 19


def test_a_query_that_would_take_long_to_plan_is_refused() -> None:
    """Nothing else of a cluster is decided while a query is planned."""
    chain = [keep(f"f{i}", f"f{i - 1}" if i else "s") for i in range(OPERATORS_MAX + 1)]
    with pytest.raises(QueryError, match="1,001 operators, expected at most 1,000"):
        planned(query(*chain))
    with pytest.raises(QueryError, match="1,048,576 channels between instances, expected at most 524,288"):
        planned(query(group("g", "s", "ip"), parallelism=1024))


@pytest.mark.parametrize("recover", ["off", "on-commit", "at-once"])
def test_a_query_recovers_as_its_cluster_says_where_it_does_not_say_it_itself(recover: str) -> None:
    asked = query(pick("m", "s"))
    made = planned(asked, recover=recover)
    assert (recovers(made), made.notes) == (recover != "off", ())
    assert made.query.options.recover == recover or not recovers(made)
    assert queries.to_json(from_json(to_json(made)).written) == queries.to_json(asked), "users are shown what they wrote"
    own = replace(query(pick("m", "s")), options=Options(recover="at-once"))
    assert planned(own, recover=recover).query.options.recover == "at-once"


def test_a_query_that_cannot_recover_as_its_cluster_says_does_not_and_a_note_says_why() -> None:
    with_clock = fixed_window()  # it says now()
    assert planned(with_clock, recover="on-commit").query.options.recover == "on-commit"
    made = planned(with_clock, recover="at-once")
    assert not recovers(made)
    (note,) = (each for each in made.notes if "recover" in each)
    assert note.startswith("it does not recover, though queries of this cluster do, at-once: operator 'stamp' uses now()")
    twice = planned(replace(query(pick("m", "s")), options=Options(replicas=2)), two_nodes(2), recover="on-commit")
    assert not recovers(twice)
    (note,) = twice.notes
    assert note.startswith("it does not recover, though queries of this cluster do, on-commit: stream 's' cannot be read")
