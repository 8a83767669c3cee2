"""Windows by rows in whole queries: any execution and any restart answers as one instance does, and as the windows of the
specification say, which are drawn in docs/semantics.md.

Tests `sequential_aggregate.py`, `cep/compile/windows/sequential_snapshot.py`.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cep.errors import QueryError
from cep.kernels.jit import interpreted
from cep.model.expr import col
from cep.model.functions import arg_max, avg, collect, count, count_distinct, first, last, median, sum_, window_start
from cep.model.operators import Aggregate
from cep.model.query import Output, Query
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.model.windows import SESSION, SIZE, TRANSACTION, UNBOUNDED, Window
from cep.plan.validate import validate
from tests.reference import Partition
from tests.strategies import Case, Execution, executions
from tests.support.restarting import run_with_restart
from tests.support.running import run_case
from tests.support.sequential import Plan, Row, operator_of, run

#: Machine code of its own, on cores that are shared.
pytestmark = pytest.mark.timeout(900)

EVENTS = Stream("s", Schema.of({"t": "timestamp[us]", "k": "string?", "v": "int64", "w": "string?"}), col("t"), 4)
KINDS: dict[str, Window] = {
    "size": SIZE(4),
    "sliding size": SIZE(5, 2),
    "session": SESSION("3us"),
    "transaction": TRANSACTION(col("v") == 1, col("v") == 2),
    "running": UNBOUNDED(ttl=None),
    "running with ttl": UNBOUNDED(ttl="6us"),
    "periodic": UNBOUNDED("5us", ttl=None),
    "periodic with ttl": UNBOUNDED("5us", ttl="7us"),
}
FIELDS = (
    ("n", count()),
    ("sum", sum_("v")),
    ("mean", avg("v")),
    ("first", first("w")),
    ("last", last("v")),
    ("best", arg_max("w", by="v")),
    ("different", count_distinct("w")),
    ("middle", median("v")),
    ("all", collect("v", at_most=5)),
)


def query(window: Window, by: tuple[str, ...] = ("k",), **options: Any) -> Query:
    return Query("q", (EVENTS,), (Aggregate("a", "s", window, by, FIELDS, **options),), (Output("out", "a"),))


@st.composite
def events(draw: st.DrawFn, window: Window) -> Case:
    choose = random.Random(draw(st.integers(0, 9_999)))

    def event(time: int) -> tuple[Any, ...]:
        return time + choose.randint(-2, 2), choose.choice("ab"), choose.randint(0, 3), choose.choice(("x", "y", None))

    partitions = [Partition(i, [event(time) for time in range(12)]) for i in range(draw(st.integers(1, 3)))]
    return Case(query(window), {"s": partitions})


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6)
@given(st.data(), executions(), executions(), st.integers(0, 30))
def test_any_execution_and_restart_answers_as_another(
    kind: str, data: st.DataObject, before: Execution, after: Execution, turns: int
) -> None:
    case = data.draw(events(KINDS[kind]))
    with interpreted():
        one, two, both = run_case(case, before), run_case(case, after), run_with_restart(case, before, after, turns)
    answers = [sorted(map(repr, ran.outputs["out"])) for ran in (one, two, both)]
    assert answers[0] == answers[1] == answers[2]
    assume(one.outputs["out"])  # no transaction need come to its end: then another case is drawn


def test_what_has_no_bounds_says_so() -> None:
    broken = Query("q", (EVENTS,), (Aggregate("a", "s", UNBOUNDED(ttl=None), ("k",), (("b", window_start()),)),), (Output("out", "a"),))
    with pytest.raises(QueryError, match="operator 'a', field 'b': an UNBOUNDED window with an answer for every tuple has no window_start"):
        validate(broken, {})


@pytest.mark.long  # `test_properties.py` has such a query as machine code
def test_machine_code_with_every_kind_of_state() -> None:
    """Blocks and texts grow, move and are merged: as interpreted."""
    choose = random.Random(3)
    cells = [(t // 3, choose.choice("abc"), choose.randint(0, 5), choose.choice(("x" * 17, "y", None, "z" * 30))) for t in range(240)]
    members = [Row(t, i, k, v, s=w) for i, (t, k, v, w) in enumerate(cells)]
    functions = (("best", arg_max("s", by="n")), ("different", count_distinct("s")), ("all", collect("s", at_most=5)))
    for window in (SIZE(50, 6), UNBOUNDED(ttl="2us")):
        plan = Plan(5, (37, 1), (2, 3), 120)
        compiled, _ = run(operator_of(window, functions), members, plan)
        with interpreted():
            assert run(operator_of(window, functions), members, plan)[0] == compiled
