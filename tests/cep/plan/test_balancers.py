"""Balancers and routing keys, chosen and asked for (paper 4.1.2, Figures 8 to 11; rule 6.2)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.errors import QueryError
from cep.model.expr import coalesce, col
from cep.model.functions import last
from cep.model.operators import Aggregate, Filter, Map, Operator, Union
from cep.model.query import BALANCERS, Query
from cep.plan.physical import Edge, PhysicalPlan
from cep.plan.route import Route
from cep.plan.split import topological
from tests.support import plans
from tests.support.plans import SCHEMA, figure_3, fixed_window, group, keep, one_node, pick, planned, query

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


def test_streams_that_never_meet_are_routed_by_their_own_types() -> None:
    """Replicas of two chains side by side, one keyed by a text and one by a number."""
    asked = query(group("a", "s", "ip"), group("b", "r", "bytes"), replicas=2)
    made = planned(asked, one_node(2), numa=False)
    routes = {edge.producer: Route.of(made, edge) for edge in made.edges if edge.is_input}
    types = {name: [str(field.type) for field in route.fields] for name, route in routes.items() if route}
    assert types == {"s": ["string"], "r": ["int64"]}
