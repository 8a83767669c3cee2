"""Which changes of a query that runs keep the state of its operators, and which are refused, by name: the table of the design.

Tests `upgrading.py`, `kept_state.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from cep.errors import QueryError
from cep.model.query import Output
from cep.model.query import Query as CepQuery
from cep.plan.kept_state import Fate
from cep.plan.upgrading import Upgrade, upgraded
from driver import SIZE, TIME, Query, arg_max, avg, col, count, max_, stream, sum_, window_end
from tests.support import plans
from tests.support.plans import planned

Change = Callable[[Query], Query]
SIZES = {"SQ1": 1, "SQ2": 2, "SQ3": 1}


def clicks(**columns: object) -> Any:
    return stream("clicks", t="timestamp[ms]", key=int, ip=int, bytes=int, event_time="t", disorder="1s", **columns)


def same(query: Query) -> Query:
    return query


def first(query: Query, window: Any = None, by: tuple[str, ...] = ("key", "ip"), **functions: Any) -> Query:
    return query.aggregate("first", window or TIME("1s"), by=list(by), **(functions or {"n": count(), "sum": sum_("bytes")}))


def second(query: Query) -> Query:
    return query.aggregate("second", TIME("10s"), by="ip", n=sum_("n"))


def query(before: Change = same, one: Change = first, between: Change = same, two: Change = second, behind: Change = same) -> Query:
    """SQ1 reads, SQ2 counts by two columns, SQ3 adds that up by one."""
    return behind(two(between(one(before(Query("q").source(clicks()))))))


def built(made: Query, **options: Any) -> CepQuery:
    return made.output("out").options(**{"recover": "on-commit", "parallelism": SIZES, "pre_aggregation": "off"} | options).build()


def upgrade(made: CepQuery, **options: Any) -> Upgrade:
    """Of the query as it is first, with other options."""
    return upgraded(planned(built(query(), **options)), made)


def of_a_row(*names: str) -> CepQuery:
    """Where `first` gives columns of one row, too."""
    made = query(one=lambda q: first(q, n=count(), **arg_max(list(names), by="bytes")))
    return built(made)


def keep_time(query: Query) -> Query:
    return query.map("m", key=col("key"), ip=col("ip"), bytes=col("bytes") * 2)


STAY = "its subscribers stay"
KEPT: dict[str, tuple[CepQuery, str]] = {
    "nothing": (built(query()), "operator 'first': keeps its state"),
    "a filter comes": (built(query(before=lambda q: q.filter("f", col("bytes") > 3))), "operator 'f': has no state, comes"),
    "a map comes before": (built(query(before=keep_time)), "operator 'm': has no state, comes"),
    "a map comes between": (built(query(between=lambda q: q.map("m", ip=col("ip"), n=col("n") + 1))), "operator 'second': keeps its state"),
    "a filter comes behind": (
        built(query(behind=lambda q: q.filter("f", col("n") > 3))),
        "output 'out': keeps its state, its subscribers stay",
    ),
    "a function goes": (built(query(one=lambda q: first(q, n=count()))), "operator 'first': keeps its state, but for what sum needed"),
    "a function has another name": (
        built(query(one=lambda q: first(q, n=count(), total=sum_("bytes")))),
        "operator 'first': keeps its state",
    ),
    "a bound of the window is told too": (
        built(query(one=lambda q: first(q, n=count(), sum=sum_("bytes"), end=window_end()))),
        "operator 'first': keeps its state",
    ),
    "more instances": (built(query(), parallelism=SIZES | {"SQ2": 4}), "SQ2: keeps its state, in 4 instances in place of 2"),
    "fewer instances": (built(query(), parallelism={"SQ2": 1}), "SQ2: keeps its state, in 1 instance in place of 2"),
    "how many is not said": (built(query(), parallelism=None), "operator 'first': keeps its state"),
    "whether it recovers is not said": (built(query(), recover="auto"), "operator 'first': keeps its state"),
    "checkpoints are rarer": (built(query(), checkpoint="5s"), "operator 'first': keeps its state"),
}


@pytest.mark.parametrize("change", KEPT)
def test_these_keep_state(change: str) -> None:
    made, line = KEPT[change]
    found = upgrade(made)
    assert found.plan is not None and not found.refused
    assert line in map(str, found.fates)
    sizes = {each.name: each.parallelism for each in found.plan.subqueries}
    wanted = SIZES | dict(made.options.parallelism_of)
    assert sizes == wanted and {each.name: len(found.plan.instances_of(each.name)) for each in found.plan.subqueries} == wanted


REFUSED: dict[str, tuple[CepQuery, str]] = {
    "a window is longer": (
        built(query(one=lambda q: first(q, TIME("2s")))),
        r"""operator 'first', its window: there is {.*"advance": "1s"}; wanted is {.*"advance": "2s"}; state is kept where the window is""",
    ),
    "a window is of another kind": (built(query(one=lambda q: first(q, SIZE(10)))), "operator 'first', its window"),
    "another key": (
        built(query(one=lambda q: first(q, by=("ip",)))),
        r"""operator 'first', its by: there is \["key", "ip"\]; wanted is \["ip"\]""",
    ),
    "another type": (
        built(query(before=lambda q: q.map("m", key=col("key"), ip=col("ip").cast("int32"), bytes=col("bytes")))),
        "operator 'first', its columns of input: there is .*ip: int64.*; wanted is .*ip: int32",
    ),
    "a function comes": (
        built(query(one=lambda q: first(q, n=count(), sum=sum_("bytes"), most=max_("bytes")))),
        r"operator 'first', its functions: there is n = count\(\).*; of the windows that are open most would lack the rows of before",
    ),
    "a function of another column": (
        built(query(one=lambda q: first(q, n=count(), sum=sum_("key")))),
        r"operator 'first', its functions: .*sum\(bytes\).*; wanted is .*sum\(key\)",
    ),
    "a function that needs what others keep": (
        built(query(one=lambda q: first(q, n=count(), sum=sum_("bytes"), mean=avg("bytes")))),
        "of the windows that are open mean would lack",
    ),
    "an operator with state comes": (
        built(query(behind=lambda q: q.aggregate("third", TIME("10s"), by="ip", n=sum_("n")))),
        "operator 'third': there is none; wanted is aggregate 10s by ip.*it would know nothing of the rows of before",
    ),
    "an operator with state goes": (
        built(query(two=lambda q: q.map("m", ip=col("ip"), n=col("n"))), parallelism={"SQ1": 1, "SQ2": 2}),
        "operator 'second': there is aggregate 10s.*; wanted is none; what it knows would be lost",
    ),
    "an operator is of another kind": (
        built(query(two=lambda q: q.filter("second", col("n") > 3).map("m", ip=col("ip"), n=col("n"))), parallelism={"SQ1": 1, "SQ2": 2}),
        "operator 'second', its type: there is aggregate; wanted is filter",
    ),
    "a delay before a window": (
        built(query(before=lambda q: q.delay("later", "5s"))),
        "operator 'first', its order of input: there is clicks.*; wanted is clicks.*delay",
    ),
    "a delay before an output": (
        built(query(behind=lambda q: q.delay("later", "5s"))),
        "output 'out': there is rows in the order of second",
    ),
    "another output": (
        built(query(behind=lambda q: q.map("m", ip=col("ip")))),
        r"output 'out': there is \(ip: int64, n: int64.*; wanted is \(ip",
    ),
    "an output comes": (built(query().output("more")), "output 'more': there is none; wanted is one; an output cannot begin in the middle"),
    "an output goes": (replace(built(query()), outputs=(Output("other", "second"),)), "output 'out': there is one; wanted is none"),
    "late rows go elsewhere": (replace(built(query()), late="late"), "the stream of late rows: there is None; wanted is 'late'"),
    "a stream has more columns": (
        built(second(first(Query("q").source(clicks(more="int64?"))))),
        "stream 'clicks': there is .*; wanted is .*more.*; leave its declaration as it is",
    ),
    "answers at once": (built(query(), recover="at-once"), "option 'recover': there is 'on-commit'; wanted is 'at-once'"),
    "more buckets": (built(query(), buckets=8192), "option 'buckets': there is 4096; wanted is 8192"),
    "as many of each": (
        built(query(), parallelism=2),
        "option 'parallelism': there is .*; wanted is 2; name each subquery, as in parallelism",
    ),
    "more readers": (
        built(query(), parallelism={"SQ1": 3}),
        "SQ1: there is 1; wanted is 3; SQ1 of query 'q' cannot be scaled .*reads stream",
    ),
    "partial results": (
        built(query(), pre_aggregation="on"),
        "partial results of SQ1: there is none; wanted is first; such results are state",
    ),
    "another cut": (built(query(), split="single", parallelism=None), r"the cut into subqueries: there is SQ1 \(clicks\); SQ2 \(first\)"),
}


@pytest.mark.parametrize("change", REFUSED)
def test_these_are_refused_by_name(change: str) -> None:
    made, why = REFUSED[change]
    found = upgrade(made)
    assert found.plan is None
    said = "; ".join(map(str, found.refused))
    assert re.search(why, said), said


def third(query: Query) -> Query:
    return query.deduplicate("third", by="ip", ttl="1h")


ALONE: dict[str, Any] = {"split": "single", "parallelism": None}


ANEW: dict[str, tuple[CepQuery, list[str]]] = {
    "a window is longer": (
        built(query(one=lambda q: first(q, TIME("2s")))),
        ["operator 'first': begins with none, its window was {", "operator 'second': keeps its state"],
    ),
    "another key": (
        built(query(one=lambda q: first(q, by=("ip",)))),
        ["""operator 'first': begins with none, its by was ["key", "ip"], and is ["ip"]""", "operator 'second': keeps its state"],
    ),
    "a function comes": (
        built(query(one=lambda q: first(q, n=count(), sum=sum_("bytes"), most=max_("bytes")))),
        ["operator 'first': begins with none, most comes"],
    ),
    "partial results begin with it": (
        built(
            query(one=lambda q: first(q, TIME("2s")), two=lambda q: q.aggregate("second", TIME("20s"), by="ip", n=sum_("n"))),
            pre_aggregation="on",
        ),
        ["operator 'first': begins with none", "operator 'second': begins with none"],
    ),
    "a delay comes before it": (
        built(query(before=lambda q: q.delay("later", "5s"))),
        ["operator 'later': has no state, comes", "operator 'first': begins with none, its order of input was clicks"],
    ),
    "nothing that matters": (built(query()), ["operator 'first': keeps its state", "operator 'second': keeps its state"]),
}


@pytest.mark.parametrize("change", ANEW)
def test_what_cannot_keep_its_state_begins_with_none_if_that_is_asked_for(change: str) -> None:
    made, lines = ANEW[change]
    there = planned(built(query()))
    found = upgraded(there, made, fresh=True)
    assert found.plan is not None, found.text
    told = list(map(str, found.fates))
    assert all(any(each.startswith(line) for each in told) for line in lines), told
    assert (upgraded(there, made).plan is None) == any("begins with none" in each for each in told)


def test_operators_with_state_come_and_go_within_a_subquery() -> None:
    two, three = built(query(), **ALONE), built(query(behind=third), **ALONE)
    for there, wanted, said in ((two, three, "begins with none, comes"), (three, two, "its state is lost, goes")):
        found = upgraded(planned(there), wanted, fresh=True)
        assert found.plan is not None
        told = list(map(str, found.fates))
        assert f"operator 'third': {said}" in told and "operator 'first': keeps its state" in told
        assert upgraded(planned(there), wanted).plan is None


BEYOND = {
    name: REFUSED[name]
    for name in (
        "another output", "an output comes", "an output goes", "late rows go elsewhere", "a stream has more columns", "answers at once",
        "more buckets", "more readers", "partial results", "a delay before an output",
    )
} | {
    "one that has to be one instance": (
        built(query(one=lambda q: first(q, by=(), n=count(), ip=max_("ip"))), parallelism=None),
        "instances of each subquery: there is SQ1=1, SQ2=2, SQ3=1; wanted is as many; .*SQ2 cannot have 2 instances",
    ),
    "an operator comes that begins a subquery": (
        built(query(behind=third)),
        r"the cut into subqueries: there is .*; wanted is .*; SQ4 \(third\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", BEYOND)
def test_these_are_refused_even_so(change: str) -> None:
    made, why = BEYOND[change]
    found = upgraded(planned(built(query())), made, fresh=True)
    assert found.plan is None
    said = "; ".join(map(str, found.refused))
    assert re.search(why, said), said


def test_rows_are_never_older_than_what_was_promised() -> None:
    """Less of a delay, or a stream that joins the way, would be behind watermarks that stand where rows come in."""
    late, soon = (built(query(before=lambda q, by=by: q.delay("later", by))) for by in ("5s", "3s"))
    found = upgraded(planned(late), soon, fresh=True)
    assert "event time of SQ1 → SQ2: there is clicks + 5s; wanted is clicks + 3s" in str(found.refused[0])
    assert upgraded(planned(soon), late, fresh=True).plan is not None
    assert upgraded(planned(late), built(query()), fresh=True).plan is None


def test_functions_of_one_row_stay_together() -> None:
    found = upgraded(planned(of_a_row("t", "bytes")), of_a_row("bytes"))
    why = r"operator 'first', its functions: .*, of a row kept as bytes, t.*; wanted is .*of a row kept as bytes;"
    assert re.search(why, "; ".join(map(str, found.refused))) and found.plan is None
    assert upgraded(planned(of_a_row("t", "bytes")), built(query(one=lambda q: first(q, n=count())))).plan is not None


def test_functions_of_one_row_may_stand_in_another_place() -> None:
    found = upgraded(planned(of_a_row("t", "bytes")), of_a_row("bytes", "t"))
    assert found.plan is not None and "operator 'first': keeps its state" in map(str, found.fates)


def test_what_can_never_be_upgraded() -> None:
    with pytest.raises(QueryError, match="query 'q' cannot be upgraded: it does not recover, and an upgrade is a recovery; deploy it with"):
        upgrade(built(query()), recover="off")


def test_what_tells_its_answers_at_once_can_be_upgraded_but_goes_on_doing_so() -> None:
    assert upgrade(built(query(), recover="at-once"), recover="at-once").plan is not None
    refused = upgrade(built(query()), recover="at-once").refused
    assert [str(each) for each in refused if "option 'recover': there is 'at-once'; wanted is 'on-commit'" in str(each)]


def test_one_of_another_name_is_none_of_it() -> None:
    with pytest.raises(QueryError, match="this is query 'other', expected query 'q', which runs"):
        upgrade(replace(built(query()), name="other"))


@settings(deadline=None)
@given(made=plans.queries())
def test_any_query_is_one_that_it_may_be_upgraded_to(made: CepQuery) -> None:
    """Nothing is told apart that is the same."""
    options = replace(made.options, recover="on-commit", replicas=1)
    try:
        before = planned(replace(made, options=options))
    except QueryError:
        return  # it cannot recover
    found = upgraded(before, before.query)
    assert found.plan is not None and not found.refused
    assert (found.plan.subqueries, found.plan.edges, found.plan.instances) == (before.subqueries, before.edges, before.instances)
    assert Fate.REFUSED not in {each.fate for each in found.fates}
