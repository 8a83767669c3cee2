"""Parallelism, balancers, routing keys and pre-aggregation (paper 4.1.2, Figures 8 to 11; rules 5.6, 6.2)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.errors import PlacementError, QueryError
from cep.model.expr import coalesce, col
from cep.model.functions import approx_count_distinct, avg, count_distinct, first, last, max_, median, stddev, sum_, var
from cep.model.operators import Aggregate, Filter, Map, Operator, Union
from cep.model.query import BALANCERS, Query
from cep.model.windows import SessionWindow
from cep.plan.lineage import common_key
from cep.plan.physical import Edge, PhysicalPlan
from cep.plan.pre_aggregate import decisions
from cep.plan.route import Route
from cep.plan.split import topological
from tests.support import plans
from tests.support.plans import SCHEMA, figure_3, files, fixed_window, group, keep, one_node, pick, planned, query

OTHERS = tuple(name for name in SCHEMA.names if name != "ip")
PER_IP = group("a", "s", "ip", functions=tuple((name, last(name)) for name in OTHERS))
PER_IP_AND_URL = group("a", "s", "ip", "url", functions=tuple((name, last(name)) for name in ("bytes", "price", "ts")))


def inner(plan: PhysicalPlan) -> dict[str, str]:
    """consumer -> balancer(fields), of the edges between subqueries."""
    return {f"{e.producer}>{e.consumer}": e.balancer + (f"({','.join(e.fields)})" if e.fields else "") for e in plan.edges if e.is_inner}


def parallelism(plan: PhysicalPlan) -> dict[str, int]:
    return {s.name: s.parallelism for s in plan.subqueries}


# --- balancers -------------------------------------------------------------------------------------------------------

BALANCED: dict[str, tuple[Query, dict[str, str]]] = {
    "Figure 8, point-to-point: one instance": (query(PER_IP, parallelism=1), {"s>a": "point-to-point"}),
    "Figure 9, round-robin: stateless": (
        query(pick("m", "s"), keep("f", "m"), split="per-operator"),
        {"m>f": "round-robin"},
    ),
    "Figure 10, route-key: stateful": (query(PER_IP), {"s>a": "route-key(ip)"}),
    "several group fields, in their order": (query(group("a", "s", "url", "ip")), {"s>a": "route-key(url,ip)"}),
    "without group: one instance": (query(group("a", "s")), {"s>a": "point-to-point"}),
    "Figures 3 and 4": (
        figure_3(),
        {"f1>a1": "route-key(ip)", "m2>u": "round-robin", "f2>u": "round-robin", "f3>a2": "route-key(ip)"},
    ),
    "partitioned already by the same": (
        query(PER_IP, pick("m", "a"), group("b", "m", "ip")),
        {"s>a": "route-key(ip)", "m>b": "point-to-point(ip)"},
    ),
    "partitioned already by a part of the key": (
        query(PER_IP, group("b", "a", "url", "ip")),
        {"s>a": "route-key(ip)", "a>b": "point-to-point(ip)"},
    ),
    "partitioned already, under another name": (
        query(PER_IP, pick("m", "a", url="ip", ip="url"), group("b", "m", "ip", "url")),
        {"s>a": "route-key(ip)", "m>b": "point-to-point(url)"},
    ),
    "partitioned already, kept over three": (
        query(PER_IP, group("b", "a", "ip", "url"), group("c", "b", "ip")),
        {"s>a": "route-key(ip)", "a>b": "point-to-point(ip)", "b>c": "point-to-point(ip)"},
    ),
    "partitioned by more than the key": (
        query(PER_IP_AND_URL, group("b", "a", "ip")),
        {"s>a": "route-key(ip,url)", "a>b": "route-key(ip)"},
    ),
    "partitioned by something else": (
        query(PER_IP, pick("m", "a", url="ip", ip="url"), group("b", "m", "ip")),
        {"s>a": "route-key(ip)", "m>b": "route-key(ip)"},
    ),
    "a computed key is not the old one": (
        query(PER_IP, Map("m", "a", (("ip", coalesce(col("url"), "")),)), group("b", "m", "ip")),
        {"s>a": "route-key(ip)", "m>b": "route-key(ip)"},
    ),
    "a user's subquery with state inside: by what its key is called outside": (
        query(pick("m", "s"), pick("p", "m", url="ip"), group("a", "p", "url"), subqueries=[["m"], ["p", "a"]]),
        {"m>p": "route-key(ip)"},
    ),
    "a user's subquery with two keys: by what they share": (
        query(pick("m", "s"), group("a", "m", "url", "ip"), group("b", "a", "ip"), subqueries=[["m"], ["a", "b"]]),
        {"m>a": "route-key(ip)"},
    ),
    "a user's subquery of two streams under two names": (
        query(pick("m", "s"), pick("x", "t"), pick("y", "x", ip="url"), Union("u", ("m", "y")), group("a", "u", "ip"),
              subqueries=[["m"], ["x"], ["y", "u", "a"]]),
        {"m>u": "route-key(ip)", "x>y": "route-key(url)"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BALANCED)
def test_balancers(case: str) -> None:
    asked, expected = BALANCED[case]
    assert inner(planned(asked)) == expected


def test_streams_are_shared_out_where_they_enter() -> None:
    edges = {e.producer: e for e in planned(figure_3()).edges if e.is_input}
    assert {name: (e.target, e.balancer, e.fields) for name, e in edges.items()} == {
        "s": ("SQ1", "round-robin", ()),
        "t": ("SQ3", "round-robin", ()),
    }


def test_every_instance_sends_its_answers_out() -> None:
    plan = planned(fixed_window())
    (out,) = [edge for edge in plan.edges if edge.is_output]
    assert out == Edge("stamp>per_ip", "SQ2", "stamp", "", "per_ip")
    assert plan.channels(out) == ((0, 0), (1, 0))


# --- parallelism -----------------------------------------------------------------------------------------------------

PARALLEL: dict[str, tuple[Query, dict[str, int], str]] = {
    "one per instance manager": (fixed_window(), {"SQ1": 2, "SQ2": 2}, ""),
    "as asked for": (fixed_window(parallelism=3), {"SQ1": 3, "SQ2": 3}, ""),
    "without group": (
        query(group("a", "s")),
        {"SQ1": 2, "SQ2": 1},
        "SQ2 runs on one instance: operator 'a' has no group-by",
    ),
    "single, stateless": (query(pick("m", "s"), split="single"), {"SQ1": 2}, ""),
    "single, stateful": (
        query(PER_IP, split="single"),
        {"SQ1": 1},
        "SQ1 runs on one instance: it reads its stream and keeps state",
    ),
    "nothing in common": (
        query(PER_IP, group("b", "a", "url"), pick("m", "s"), subqueries=[["a", "b"], ["m"]]),
        {"SQ1": 2, "SQ2": 1},
        "SQ2 runs on one instance: no field that enters unchanged is in the group-by of 'b'",
    ),
}


@pytest.mark.parametrize("case", PARALLEL)
def test_parallelism(case: str) -> None:
    asked, expected, note = PARALLEL[case]
    plan = planned(asked)
    assert parallelism(plan) == expected
    assert any(text.startswith(note) for text in plan.notes) if note else not plan.notes


# --- overrides -------------------------------------------------------------------------------------------------------

STATELESS = (pick("m", "s"), keep("f", "m"))
OVERRIDES: dict[str, tuple[tuple[Operator, ...], dict[str, object], str, str]] = {
    "stateless, instance to instance": (STATELESS, {"f": "point-to-point"}, "m>f", "point-to-point"),
    "what it is anyway": (STATELESS, {"f": "round-robin"}, "m>f", "round-robin"),
    "by the whole key instead of as it is": (
        (PER_IP, group("b", "a", "url", "ip")),
        {"b": "route-key"},
        "a>b",
        "route-key(url,ip)",
    ),
    "broadcast to one instance": ((group("a", "s"),), {"a": "broadcast"}, "s>a", "point-to-point"),
    "round-robin to one instance": ((group("a", "s"),), {"a": "round-robin"}, "s>a", "point-to-point"),
    "before the stream is read": ((pick("m", "s"), PER_IP), {"m": "round-robin"}, "s>a", "route-key(ip)"),
}


@pytest.mark.parametrize("case", OVERRIDES)
def test_sound_overrides(case: str) -> None:
    operators, balancers, edge, expected = OVERRIDES[case]
    assert inner(planned(query(*operators, split="per-operator", balancers=balancers)))[edge] == expected


UNSOUND: dict[str, tuple[tuple[Operator, ...], dict[str, str], str]] = {
    "broadcast": (STATELESS, {"f": "broadcast"}, "each of the 2 instances of SQ2 would process every tuple"),
    "broadcast, stateful": ((PER_IP,), {"a": "broadcast"}, "every answer come 2 times; use 'route-key'"),
    "round-robin, stateful": (
        (PER_IP,),
        {"a": "round-robin"},
        "tuples of one group would go to different instances of SQ2",
    ),
    "point-to-point, stateful": (
        (PER_IP,),
        {"a": "point-to-point"},
        "tuples of one group are at different instances of SQ1",
    ),
    "route-key, stateless": (
        STATELESS,
        {"f": "route-key"},
        "no stateful operator of SQ2 gets its tuples, so there is no key",
    ),
    "point-to-point, one to two": (
        (group("a", "s"), Filter("f", "a", col("n") > 0)),
        {"f": "point-to-point"},
        "SQ2 has parallelism 1 and SQ3 2, so 1 of these would get nothing",
    ),
    "before the stream is read": (STATELESS, {"m": "route-key"}, "a stream is shared out before it is read"),
    "unknown": (STATELESS, {"x": "route-key"}, "no operator 'x'; there are m, f"),
}


@pytest.mark.parametrize("case", UNSOUND)
def test_unsound_overrides_are_refused_with_the_reason(case: str) -> None:
    operators, balancers, message = UNSOUND[case]
    with pytest.raises(QueryError) as raised:
        planned(query(*operators, split="per-operator", balancers=balancers))
    assert message in raised.value.message
    assert raised.value.pointer == f"/options/balancers/{next(iter(balancers))}"


def test_an_override_of_one_way_in_reroutes_the_other_too() -> None:
    """x and y bring rows of one group from b; were only one of them routed anew, the group would be torn."""
    asked = query(
        PER_IP,
        keep("b", "a"),
        keep("x", "b"),
        keep("y", "b"),
        Union("u", ("x", "y")),
        group("c", "u", "url", "ip"),
        subqueries=[["a", "b"], ["x", "y", "u", "c"]],
    )
    kept, rerouted = "point-to-point(ip)", "route-key(url,ip)"
    assert inner(planned(asked)) == {"s>a": "route-key(ip)", "b>x": kept, "b>y": kept}
    one = planned(replace(asked, options=replace(asked.options, balancers=(("y", "route-key"),))))
    assert inner(one) == {"s>a": "route-key(ip)", "b>x": rerouted, "b>y": rerouted}


def test_there_is_no_balancer_inside_a_subquery() -> None:
    with pytest.raises(QueryError, match="operator 'f' reads inside SQ1, where there is no balancer"):
        planned(query(*STATELESS, balancers={"f": "round-robin"}))


# --- pre-aggregation -------------------------------------------------------------------------------------------------

PRICE = group("a", "s", "ip", functions=(("revenue", sum_("price")),))
PRE: dict[str, tuple[Query, bool, str]] = {
    "auto": (query(PER_IP), True, "its functions merge"),
    "off": (query(PER_IP, pre_aggregation="off"), False, "pre_aggregation is 'off'"),
    "on": (query(PER_IP, pre_aggregation="on"), True, "pre_aggregation is 'on'"),
    "without group": (query(group("a", "s")), True, "its functions merge"),
    "an integer sum": (query(group("a", "s", "ip", functions=(("b", sum_("bytes")), ("m", avg("bytes"))))), True, ""),
    "max of float64": (query(group("a", "s", "ip", functions=(("m", max_("price")), ("f", first("price"))))), True, ""),
    "a float64 sum": (query(PRICE), False, "the exact sum of price (float64) has no small partial"),
    "a float64 sum, on": (query(PRICE, pre_aggregation="on"), True, "pre_aggregation is 'on'"),
    "a distinct count": (
        query(group("a", "s", "ip", functions=(("n", count_distinct("url")),))),
        False,
        "a partial count_distinct of url holds",
    ),
    "a float64 variance": (query(group("a", "s", "ip", functions=(("v", stddev("price")),))), False, "the exact stddev of price (float64)"),
    "sketches": (
        query(group("a", "s", "ip", functions=(("n", approx_count_distinct("url")), ("m", median("price")), ("v", var("bytes"))))),
        True,
        "",
    ),
    "one instance to one": (query(PER_IP, parallelism=1), False, "rows go straight to one instance each"),
    "one instance to one, on": (query(PER_IP, parallelism=1, pre_aggregation="on"), True, "pre_aggregation is 'on'"),
    "nothing to cross": (query(PER_IP, split="single"), False, "it runs in the same subquery"),
    "nothing to cross, on": (
        query(PER_IP, split="single", pre_aggregation="on"),
        False,
        "it runs in the same subquery",
    ),
}


@pytest.mark.parametrize("case", PRE)
def test_pre_aggregation(case: str) -> None:
    asked, on, why = PRE[case]
    plan = planned(asked)
    (decision,) = decisions(plan)
    assert decision.on == on
    assert decision.why.startswith(why)
    assert [e.consumer for e in plan.edges if e.partial] == (["a"] if on else [])
    assert plan.subquery("SQ1").pre_aggregates == (("a",) if on else ())


def test_partials_are_routed_by_the_group_fields() -> None:
    (edge,) = [edge for edge in planned(fixed_window()).edges if edge.partial]
    assert (edge.balancer, edge.fields) == ("route-key", ("ip",))


def test_one_subquery_pre_aggregates_for_all_that_read_it() -> None:
    plan = planned(query(pick("m", "s"), group("a", "m", "ip"), group("b", "m", "url")))
    assert plan.subquery("SQ1").pre_aggregates == ("a", "b")


def test_on_where_it_cannot_be_is_refused_with_the_reason() -> None:
    by_session = replace(PER_IP, window=SessionWindow(5))
    with pytest.raises(QueryError, match=r"operator 'a' cannot be pre-aggregated: its window takes the tuples of a group one by one"):
        planned(query(by_session, pre_aggregation="on"))


# --- replicas --------------------------------------------------------------------------------------------------------


def test_replicas_stay_on_their_nodes() -> None:
    plan = planned(fixed_window(replicas=2), plans.two_nodes(3))
    node = {worker.im: worker.node for worker in plan.workers}
    assert parallelism(plan) == {"SQ1": 3, "SQ2": 3}
    assert [(i.index, i.replica, node[i.im]) for i in plan.instances_of("SQ2")] == [(i, i // 3, i // 3) for i in range(6)]
    (edge,) = [edge for edge in plan.edges if edge.is_inner]
    assert set(plan.channels(edge)) == {(r * 3 + i, r * 3 + j) for r in range(2) for i in range(3) for j in range(3)}
    assert plan.cost == planned(fixed_window(), plans.one_node(3)).cost


def test_publishers_choose_the_replica_by_the_common_key() -> None:
    plan = planned(fixed_window(replicas=2), plans.two_nodes(1))
    assert [edge.fields for edge in plan.edges if edge.is_input] == [("ip",)]


def test_any_replica_will_do_for_a_stateless_query() -> None:
    plan = planned(query(pick("m", "s"), declared=(files("s"),), replicas=2), plans.two_nodes(1))
    assert [edge.fields for edge in plan.edges if edge.is_input] == [()]


TORN: dict[str, tuple[Query, str]] = {
    "no group": (query(group("a", "s"), replicas=2), "operator 'a' has no group-by"),
    "nothing in common": (
        query(PER_IP, group("b", "a", "url"), replicas=2),
        "operator 'b' is grouped by url, of which no field comes unchanged",
    ),
    "files": (
        query(PER_IP, declared=(files("s"),), replicas=2),
        "stream 's' is read from files, whose blocks hold rows of any ip",
    ),
}


@pytest.mark.parametrize("case", TORN)
def test_replicas_that_would_tear_groups_are_refused(case: str) -> None:
    asked, message = TORN[case]
    with pytest.raises(QueryError) as raised:
        planned(asked, plans.two_nodes(1), files={"s": (("/data/a.txt", 10),)})
    assert message in raised.value.message
    assert raised.value.pointer == "/options/replicas"


@pytest.mark.parametrize("numa", [True, False])
def test_more_replicas_than_there_is_room_for(numa: bool) -> None:
    with pytest.raises(PlacementError, match=r"replicas=3, but .* 2 "):
        planned(fixed_window(replicas=3), plans.two_nodes(1), numa=numa)


# --- the reason for it all: rows of one group meet at one instance ---------------------------------------------------

ROWS = tuple({"ip": ip, "url": url} for ip in range(4) for url in range(4)) * 3


@given(
    asked=plans.queries(),
    balancer=st.sampled_from(BALANCERS),
    parallelism=st.sampled_from((3, 2)),
    seed=st.integers(0, 99),
)
def test_rows_of_one_group_meet_at_one_instance(asked: Query, balancer: str, parallelism: int, seed: int) -> None:
    """Rows walk through the plan, to any instance where the balancer says any; an aggregate passes its rows on."""
    rnd = random.Random(seed)
    options = replace(asked.options, parallelism=parallelism)
    plain = planned(replace(asked, options=options))
    overridden = [(rnd.choice(asked.operators).name, balancer)] if asked.operators else []
    try:
        plan = planned(replace(asked, options=replace(options, balancers=tuple(overridden))))
    except QueryError:  # an unsound override: the plan without it
        plan = plain
    walk = _Walk(plan, rnd)
    for row in ROWS:
        for name in asked.streams:
            walk.enter(name.name, row)
    assert all(len(instances) == 1 for instances in walk.met.values())


class _Walk:
    def __init__(self, plan: PhysicalPlan, rnd: random.Random) -> None:
        self.plan, self.rnd = plan, rnd
        self.operators = topological(plan.query)
        self.met: dict[tuple[str, tuple[int, ...]], set[int]] = {}

    def enter(self, stream: str, row: Mapping[str, int]) -> None:
        home = self.plan.subquery_of(stream)
        self._out_of(stream, home.name, self.rnd.randrange(home.parallelism), row)

    def _out_of(self, producer: str, subquery: str, instance: int, row: Mapping[str, int]) -> None:
        inside = self.plan.subquery(subquery)
        for name in inside.operators:
            if producer in self.operators[name].inputs:
                self._into(name, subquery, instance, row)
        for edge in self.plan.edges_out_of(subquery):
            if edge.producer == producer and edge.is_inner:
                targets = [j for i, j in self.plan.channels(edge) if i == instance]
                key = hash(tuple(row[field] for field in edge.fields))
                chosen = targets[key % len(targets)] if edge.balancer == "route-key" else self.rnd.choice(targets)
                self._into(edge.consumer, edge.target, chosen, row)

    def _into(self, name: str, subquery: str, instance: int, row: Mapping[str, int]) -> None:
        operator = self.operators[name]
        if isinstance(operator, Aggregate):
            self.met.setdefault((name, tuple(row[field] for field in operator.by)), set()).add(instance)
        if isinstance(operator, Map):
            row = {field: row[source] for field in ("ip", "url") for source in [_source(operator, field)]}
        self._out_of(name, subquery, instance, row)


def _source(operator: Map, field: str) -> str:
    expression = dict(operator.fields)[field]
    return str(getattr(expression, "name", field))


# --- lineage ---------------------------------------------------------------------------------------------------------


def test_labels_of_two_ways_have_to_agree() -> None:
    same = (pick("x", "s"), keep("y", "s"), Union("u", ("x", "y")), group("a", "u", "ip"))
    other = (pick("x", "s", ip="url"), *same[1:])
    assert common_key(same).fields == {"s": ("ip",)}
    assert common_key(other).obstacle == other[-1]


def test_a_computed_column_is_no_label() -> None:
    computed = Map("m", "s", (("ip", col("bytes") + 1),))
    assert common_key((computed, group("a", "m", "ip"))).obstacle is not None
    assert common_key((group("a", "m", "ip"),)).fields == {"m": ("ip",)}


def test_streams_that_never_meet_have_keys_of_their_own() -> None:
    assert common_key((group("a", "s", "ip"), group("b", "t", "url"))).fields == {"s": ("ip",), "t": ("url",)}


def test_streams_that_meet_late_still_need_one_key() -> None:
    """a groups s by ip, b groups t by url, c groups both by one column that is the one here, the other there."""
    meet = (
        group("a", "s", "ip"),
        group("b", "t", "url"),
        Map("x", "a", (("k", col("ip")), ("n", col("n")))),
        Map("y", "b", (("k", col("url")), ("n", col("n")))),
        Union("u", ("x", "y")),
    )
    assert common_key((*meet, group("c", "u", "k"))).fields == {"s": ("ip",), "t": ("url",)}
    assert common_key((*meet, group("c", "u", "n"))).obstacle is not None


def test_streams_that_never_meet_are_routed_by_their_own_types() -> None:
    """Replicas of two chains side by side, one keyed by a text and one by a number."""
    asked = query(group("a", "s", "ip"), group("b", "r", "bytes"), replicas=2)
    made = planned(asked, one_node(2), numa=False)
    routes = {edge.producer: Route.of(made, edge) for edge in made.edges if edge.is_input}
    types = {name: [str(field.type) for field in route.fields] for name, route in routes.items() if route}
    assert types == {"s": ["string"], "r": ["int64"]}
