"""How many instances each subquery has, as asked for or not, and replicas (paper 4, Figure 5)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cep.errors import PlacementError, QueryError
from cep.kernels.jit import interpreted
from cep.model import query as documents
from cep.model.query import Query
from cep.plan.explain import explain
from driver import TIME, col, count, event, row
from driver import Query as Built
from tests.cep.plan.test_balancers import PER_IP, parallelism
from tests.driver.builder.test_computed import ROWS, SALES, totals
from tests.reference import Partition, assert_same_answer
from tests.strategies import Case, Execution
from tests.support import plans
from tests.support.plans import files, fixed_window, group, one_node, pick, planned, query
from tests.support.running import expected_of, outputs_of, plan_of, run_case

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


SHORT = Built("short").source(SALES)
PATTERN = SHORT.pattern("p", event("a", col("n") > 1), ttl="1s", measures={"n": row("a")["n"]}).output("o")
TORN: dict[str, tuple[Query | Built, str]] = {
    "no group": (query(group("a", "s"), replicas=2), "operator 'a' has no group-by"),
    "nothing in common": (
        query(PER_IP, group("b", "a", "url"), replicas=2),
        "operator 'b' is grouped by url, of which no field comes unchanged",
    ),
    "a table that is read again": (
        SHORT.lookup("l", ("/t.parquet", {"k": int, "w": str}), on="k", refresh="1s").output("o"),
        "operator 'l' reads its table for all instances of the lookup, so that they see the same versions; replicas have nothing in common",
    ),
    "a pattern": (PATTERN, "operator 'p' has no group-by"),
    "files": (
        query(PER_IP, declared=(files("s"),), replicas=2),
        "stream 's' is read from files, whose blocks hold rows of any ip",
    ),
}


@pytest.mark.parametrize("case", TORN)
def test_replicas_that_would_tear_groups_are_refused(case: str) -> None:
    asked, message = TORN[case]
    if isinstance(asked, Built):
        made = asked.build()
        asked = replace(made, options=replace(made.options, replicas=2))
    with pytest.raises(QueryError) as raised:
        planned(asked, plans.two_nodes(1), files={"s": (("/data/a.txt", 10),)})
    assert message in raised.value.message
    assert raised.value.pointer == "/options/replicas"


@pytest.mark.parametrize("numa", [True, False])
def test_more_replicas_than_there_is_room_for(numa: bool) -> None:
    with pytest.raises(PlacementError, match=r"replicas=3, but .* 2 "):
        planned(fixed_window(replicas=3), plans.two_nodes(1), numa=numa)


def test_instances_are_asked_for_by_subquery() -> None:
    query = totals().options(parallelism={"SQ2": 4}).build()
    assert documents.from_json(documents.to_json(query)).options == query.options
    assert documents.to_json(query)["options"]["parallelism"] == {"SQ2": 4}
    made = planned(query, one_node(2))
    assert [(s.name, s.parallelism) for s in made.subqueries] == [("SQ1", 2), ("SQ2", 4)]
    assert "4 instances, as asked for" in explain(made)


@pytest.mark.parametrize("asked", [{"SQ1": 3, "SQ2": 2}, {"SQ1": 1, "SQ2": 4}, {"SQ2": 1}])
def test_they_change_no_answer(asked: dict[str, int]) -> None:
    query = totals().options(parallelism=asked).build()
    execution = Execution(query.options, (2,), (), (0,), 1 << 20, 3)
    case = Case(query, {"sales": [Partition(0, ROWS)]})
    made = plan_of(query, execution)
    assert {s.name: s.parallelism for s in made.subqueries}.items() >= asked.items()
    with interpreted():
        ran = run_case(case, execution)
    assert_same_answer(outputs_of(query, expected_of(query, case.inputs)), ran.outputs)


@pytest.mark.parametrize(
    "asked, said, pointer",
    [
        ({"SQ9": 2}, "there is no subquery 'SQ9'.*the query has SQ1", "/options/parallelism/SQ9"),
        ({"SQ2": 0}, "at least 1", "/parallelism/SQ2"),
        ({"SQ2": "two"}, "at least 1", "/parallelism/SQ2"),
        ({"SQ2": 1 << 20}, "expected at most", "/parallelism/SQ2"),
    ],
)
def test_what_is_asked_for_wrongly(asked: dict[str, int], said: str, pointer: str) -> None:
    with pytest.raises(QueryError, match=said) as refused:
        totals().options(parallelism=asked).build()
    assert refused.value.pointer.endswith(pointer)


def test_one_that_has_to_be_one_says_why() -> None:
    whole = Built("whole").source(SALES).aggregate("w", TIME("10us"), n=count()).output("out")
    asked = whole.options(parallelism={"SQ2": 2})
    with pytest.raises(QueryError, match="SQ2 cannot have 2 instances: operator 'w' has no group-by"):
        asked.build()
    with pytest.raises(QueryError, match="SQ2 cannot have 2 instances: operator 'p' has no group-by"):
        PATTERN.options(parallelism={"SQ2": 2}).build()
    assert whole.options(parallelism={"SQ2": 1}).build()
