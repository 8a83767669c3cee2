"""Which aggregates are computed in two stages (rule 5.6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cep.errors import QueryError
from cep.model.functions import approx_count_distinct, avg, count_distinct, first, max_, median, stddev, sum_, var
from cep.model.query import Query
from cep.model.windows import SessionWindow
from cep.plan.pre_aggregate import decisions
from tests.cep.plan.test_balancers import PER_IP
from tests.support.plans import fixed_window, group, pick, planned, query

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
