"""Generated queries on Spark, and still the reference's answer (rule 5.8: equal on data within the disorder bound).

`tests/support/spark_running.py` says what is made comparable and how. Queries are drawn from seeds, which the name of a test says. The
long mode draws many, of all kinds, and prints what ran, by operator, and what was refused, by reason.

Tests `operators.py`, `joins.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from cep.model.query import Query
from driver.spark.refusals import Refused
from tests.reference import Partition
from tests.strategies.queries import inputs_of, published_queries
from tests.strategies.seeded import drawn
from tests.support.kinds import KINDS, kind_of
from tests.support.spark_running import assert_near, comparable, expected, in_order, run_live, run_on_spark, scale_of, within_bounds

#: A JVM that has just been started takes its time where others start theirs.
pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("one_spark")]
#: What Spark runs at least some of.
RUN = (
    *("map", "filter", "union", "demux", "flat_map", "delay", "lookup", "join", "deduplicate", "top_n time", "sort time"),
    *("aggregate time", "aggregate session", "aggregate running"),
)
#: Seeds whose queries have each of RUN between them, and the bound of a window.
CI = (5, 9, 20, 35, 44, 45, 550, 601)
#: Without those that give out an answer anew in every micro-batch that changes it.
LIVE = tuple(kind for kind in RUN if kind not in ("deduplicate", "aggregate running"))
CI_LIVE, LONG_LIVE = (9,), (3, 5, *range(10, 90))
#: (seeds, kinds) of the long mode: first what mostly runs, then whatever there is.
LONG = ((range(250), RUN), (range(1000, 1250), KINDS))
OPERATORS_MAX = 3


def drawn_case(seed: int, kinds: Sequence[str]) -> tuple[Query, dict[str, list[Partition]]]:
    query = comparable(drawn(published_queries(OPERATORS_MAX, frozenset(kinds)), f"spark-{seed}"))
    inputs: Mapping[str, Sequence[Partition]] = drawn(inputs_of(query), f"spark-{seed}-0")
    return query, within_bounds(query, inputs)


def check(query: Query, inputs: Mapping[str, Sequence[Partition]]) -> None:
    assert_near(expected(query, inputs).outputs, run_on_spark(query, inputs), scale_of(inputs))


@pytest.mark.parametrize("seed", CI)
def test_spark_answers_as_the_reference_does(seed: int) -> None:
    check(*drawn_case(seed, RUN))


@pytest.mark.parametrize("seed", [*CI_LIVE, *(pytest.param(seed, marks=pytest.mark.long) for seed in LONG_LIVE)])
def test_rows_that_come_in_many_micro_batches(seed: int) -> None:
    """Live, in the order of event time, so that the watermark moves between them."""
    query, drawn_inputs = drawn_case(seed, LIVE)
    inputs = in_order(query, drawn_inputs)
    try:
        found = run_live(query, inputs)
    except Refused as refused:
        pytest.skip(str(refused))
    assert_near(expected(query, inputs).outputs, found, scale_of(inputs))


@pytest.mark.parametrize("seed", [5045, *(pytest.param(seed, marks=pytest.mark.long) for seed in (5003, 5005))])
def test_the_last_of_each_window(seed: int) -> None:
    query, inputs = drawn_case(seed, ("keep_last", "map", "filter"))
    assert "keep_last" in map(kind_of, query.operators)
    check(query, inputs)


def test_the_sample_has_every_operator() -> None:
    assert {kind_of(operator) for seed in CI for operator in drawn_case(seed, RUN)[0].operators} == set(RUN)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_long_spark_answers_as_the_reference_does(capsys: pytest.CaptureFixture[str]) -> None:
    ran, refused, wrong = Counter[str](), Counter[str](), dict[int, str]()
    queries = 0
    for seed, kinds in ((seed, kinds) for seeds, kinds in LONG for seed in seeds):
        query, inputs = drawn_case(seed, kinds)
        try:
            check(query, inputs)
        except Refused as reason:
            refused[reason.what] += 1
            continue
        except AssertionError as difference:
            wrong[seed] = str(difference)
        queries += 1
        ran.update(kind_of(operator) for operator in query.operators)
    with capsys.disabled():
        print(f"\n{queries} queries ran on Spark, {refused.total()} were refused")
        for title, counts in (("operators that ran", ran), ("refused", refused)):
            print(f"{title}:", *(f"  {count:5} {what}" for what, count in counts.most_common()), sep="\n")
    assert not wrong, "\n".join(f"seed {seed}: {what}" for seed, what in wrong.items())
