"""A query that reads another query's output: a chain of queries answers as one query that does it all, however it is run."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cep.dataflow.channel import Inbox
from cep.dataflow.local import LocalRun, Outcome
from cep.dataflow.local_wires import Script
from cep.dataflow.operators.operator import AggregateOperator
from cep.dataflow.sources.query_source import QuerySource
from cep.elements import MAX_TIME, MIN_TIME, Batch, Element, End, Fail, Idle, Stop, Watermark
from cep.errors import QueryError
from cep.kernels.jit import interpreted
from cep.model.expr import ColumnRef, col, lit
from cep.model.functions import collect, count, first, last, max_, sum_
from cep.model.operators import Aggregate, Filter, FlatMap, Map, Operator, Origins, Sample, SampleN, Union
from cep.model.query import Options, Output, Query
from cep.model.schema import INT64, Field, Schema
from cep.model.streams import Stream
from cep.model.windows import SizeWindow, TimeWindow
from cep.plan import physical
from cep.plan.expand import expanded
from cep.plan.explain import explain
from cep.plan.feeds import feed_of, words
from cep.plan.physical import Feed, PhysicalPlan
from cep.plan.planner import plan
from cep.plan.split import streams_read, topological
from tests.reference import Partition, assert_same_answer, evaluate
from tests.reference.engine import TimedRow
from tests.strategies import Case, Execution, cases, executions, tied_cases
from tests.support.plans import one_node, workers
from tests.support.running import NOW_US, expected_of, limits, origin_of_engine, publishers, rows

MACHINE = one_node(3)
READINGS = Stream("s", Schema.of({"t": "timestamp[us]", "k": "string", "v": "int64", "u": "int64"}), ColumnRef("t"), 3)
OTHERS = Stream("a-first", READINGS.schema, ColumnRef("t"), 3)


# --- running a chain -------------------------------------------------------------------------------------------------


class Chain:
    """Queries of which each may read what those before it put out, planned for `parallelism` instances."""

    def __init__(self, *queries: Query, options: Options | None = None) -> None:
        self.plans: list[PhysicalPlan] = []
        for query in queries:
            known, feeds = self._known()
            asked = replace(query, options=options or query.options)
            self.plans.append(plan(asked, known, workers(MACHINE), MACHINE, feeds=feeds))

    def _known(self) -> tuple[dict[str, Stream], dict[str, Feed]]:
        outputs = [(made, output.stream) for made in self.plans for output in made.query.outputs]
        found = {stream: feed_of(made, 1, stream) for made, stream in outputs}
        return {name: stream for name, (stream, _) in found.items()}, {name: feed for name, (_, feed) in found.items()}

    def run(self, inputs: Mapping[str, Sequence[Partition]], execution: Execution) -> dict[str, list[TimedRow]]:
        """What comes out on all output streams, once every row has come of every partition of every stream."""
        made: list[LocalRun] = []
        for number, each in enumerate(self.plans):
            given_ = scripts(each, inputs, execution.batch_rows, random.Random(execution.seed + number))
            made.append(LocalRun(each, given_, execution.credit_bytes, lambda: NOW_US, upstream=made, **limits(execution)))
        made[-1].run(execution.seed)
        outcomes = [run.collect(Outcome()) for run in made]
        assert all(isinstance(element, End) for outcome in outcomes for element in outcome.last)
        return {name: list(rows(batches, o.schemas[name])) for o in outcomes for name, batches in o.batches.items()}


def scripts(
    made: PhysicalPlan, inputs: Mapping[str, Sequence[Partition]], batch_rows: Sequence[int], choose: random.Random
) -> dict[str, dict[str, Script]]:
    published = [name for name in made.streams if name not in made.feeds]
    readers = {name: len(made.instances_of(made.subquery_of(name).name)) for name in published}
    return {name: publishers(made.streams[name], inputs[name], readers[name], batch_rows, choose) for name in published}


def execution(parallelism: int, seed: int, batch_rows: tuple[int, ...] = (5, 1, 13), credit_bytes: int = 1) -> Execution:
    return Execution(Options(parallelism=parallelism), batch_rows, (), (0,), credit_bytes, seed)


# --- any query, cut in two -------------------------------------------------------------------------------------------


def cut_in_two(whole: Query, at: int) -> tuple[Query, Query]:
    """The first `at` operators, in topological order, as one query, and the others as one that reads it, each valid if it
    has outputs; what is read across the cut leaves as a stream `<operator>.out`."""
    operators = list(topological(whole).values())
    left, right = operators[:at], operators[at:]
    made = {operator.name for operator in left}
    across = {name for operator in right for name in operator.inputs if name in made}
    bridges = tuple(Output(f"{name}.out", name) for name in sorted(across))
    first_ = replace(whole, name="left", operators=tuple(left), late=None)
    first_ = replace(first_, outputs=tuple(o for o in whole.outputs if o.input in made) + bridges)
    read = {name for operator in right for name in operator.inputs}
    second = replace(whole, name="right", operators=tuple(renamed(o, across) for o in right), late=None)
    second = replace(second, outputs=tuple(o for o in whole.outputs if o.input not in made))
    read |= {output.input for output in second.outputs}
    return first_, replace(second, streams=tuple(stream for stream in whole.streams if stream.name in read))


def renamed(operator: Operator, across: set[str]) -> Operator:
    names = tuple(f"{name}.out" if name in across else name for name in operator.inputs)
    if hasattr(operator, "left"):
        return replace(operator, **dict(zip(("left", "right"), names, strict=True)))
    return replace(operator, **({"input": names[0]} if hasattr(operator, "input") else {"inputs": names}))


def check(case: Case, asked: Execution, at: int) -> None:
    whole = expanded(replace(case.query, late=None))
    left, right = cut_in_two(whole, at)
    assume(left.outputs and right.outputs and left.operators)
    # An origin counts the sources that a query knows of: a joined tuple's folds those of both sides, and a sample is drawn by it.
    counted = any(o.origins is Origins.FOLDED or isinstance(o, Sample | SampleN) for o in left.operators)
    assume(set(streams_read(left)) == set(streams_read(whole)) or not counted)
    options = replace(asked.options, subqueries=(), balancers=(), pre_aggregation="auto")
    expected = expected_of(case.query, case.inputs)
    ran = Chain(left, right, options=options).run(case.inputs, asked)
    assert_same_answer(expected.outputs, {name: found for name, found in ran.items() if not name.endswith(".out")})


@pytest.mark.timeout(900)  # as in tests/properties/test_properties.py
@given(cases(), executions(), st.integers(1, 5))
def test_a_query_cut_in_two_answers_as_the_whole(case: Case, asked: Execution, at: int) -> None:
    with interpreted():
        check(case, asked, at)


@pytest.mark.timeout(900)
@given(tied_cases(), executions(), st.integers(1, 5))
def test_rows_that_tie_do_so_across_queries(case: Case, asked: Execution, at: int) -> None:
    with interpreted():
        check(case, asked, at)


# --- chains that need every part of the order ------------------------------------------------------------------------


def ordered(name: str, input_: str, size: int = 20) -> Aggregate:
    functions = (("n", count()), ("v", last("v")), ("u", last("u")), ("early", first("u")), ("t", max_("t")))
    return Aggregate(name, input_, TimeWindow(size, size), ("k",), functions)


def partitions(seed: int, n: int = 60) -> list[Partition]:
    """Three partitions whose rows often share their event times."""
    choose = random.Random(seed)
    return [Partition(i, [(t // 3, choose.choice("ab"), choose.randrange(100), t) for t in range(n)]) for i in range(3)]


def answer_of(whole: Query, inputs: Mapping[str, Sequence[Partition]]) -> dict[str, list[TimedRow]]:
    return evaluate(whole, inputs, aggregate_origin=origin_of_engine(whole)).outputs


PASSED = Map("passed", "s", tuple((name, col(name)) for name in READINGS.schema.names))
LOW = Filter("low", "passed", col("v") < 70)
HIGH = Map("high", "passed", (("t", col("t")), ("k", col("k")), ("v", (col("v") * 31) % 97), ("u", (col("v") * 53) % 89)))


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_a_diamond_in_the_first_query(seed: int, parallelism: int) -> None:
    """Rows below 70 come twice, with one origin and different columns."""
    diamond = (PASSED, HIGH, LOW, Union("both", ("high", "low")))
    left = Query("left", (READINGS,), diamond, (Output("both.out", "both"),))
    right = Query("right", (), (ordered("w", "both.out"),), (Output("out", "w"),))
    whole = Query("whole", (READINGS,), (*diamond, ordered("w", "both")), (Output("out", "w"),))
    inputs = {"s": partitions(seed)}
    with interpreted():
        ran = Chain(left, right, options=Options(parallelism=parallelism)).run(inputs, execution(parallelism, seed))
    assert_same_answer(answer_of(whole, inputs), {"out": ran["out"]})


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_a_diamond_through_two_queries(seed: int, parallelism: int) -> None:
    """One branch leads through a query of its own, and another stream comes before it in the order of names."""
    high = Query("q1", (READINGS,), (PASSED, HIGH), (Output("high.out", "high"),))
    low = Query("q2", (READINGS, OTHERS), (replace(LOW, input="u"), Union("u", ("s", "a-first"))), (Output("low.out", "low"),))
    join = Query("q3", (OTHERS,), (Union("all", ("high.out", "low.out", "a-first")), ordered("w", "all")), (Output("out", "w"),))
    operators = (PASSED, HIGH, replace(LOW, input="u"), Union("u", ("s", "a-first")), Union("all", ("high", "low", "a-first")))
    whole = Query("whole", (READINGS, OTHERS), (*operators, ordered("w", "all")), (Output("out", "w"),))
    inputs = {"s": partitions(seed), "a-first": partitions(seed + 100)}
    with interpreted():
        ran = Chain(high, low, join, options=Options(parallelism=parallelism)).run(inputs, execution(parallelism, seed))
    assert_same_answer(answer_of(whole, inputs), {"out": ran["out"]})


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_chain_of_three(parallelism: int) -> None:
    inner, outer = ordered("inner", "s", 5), ordered("outer", "inner.out", 40)
    total = Aggregate("total", "outer.out", TimeWindow(80, 40), (), (("n", sum_("n")), ("v", first("v"))))
    chain = [
        Query("q1", (READINGS,), (inner,), (Output("inner.out", "inner"),)),
        Query("q2", (), (outer,), (Output("outer.out", "outer"),)),
        Query("q3", (), (total,), (Output("out", "total"),)),
    ]
    operators = (inner, replace(outer, input="inner"), replace(total, input="outer"))
    whole = Query("whole", (READINGS,), operators, (Output("out", "total"),))
    inputs = {"s": partitions(1)}
    with interpreted():
        ran = Chain(*chain, options=Options(parallelism=parallelism)).run(inputs, execution(parallelism, 1))
    assert_same_answer(answer_of(whole, inputs), {"out": ran["out"]})


# --- attached while rows flow ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [0, 3, 9])
def test_a_query_attached_later_takes_what_is_behind_all_that_had_come_out(turns: int) -> None:
    left = Query("left", (READINGS,), (PASSED,), (Output("x", "passed"),))
    right = Query("right", (), (ordered("w", "x"),), (Output("out", "w"),))
    inputs, chain = {"s": partitions(2, 8_000)}, Chain(left, right, options=Options(parallelism=2))
    with interpreted():
        made = LocalRun(chain.plans[0], scripts(chain.plans[0], inputs, (200,), random.Random(2)), clock=lambda: NOW_US)
        for turn in range(turns):
            made.turn(random.Random(turn))
        for instance in made.instances:
            instance.tick()
        seen = [int(batch.time.max()) for batch in made.collect(Outcome()).batches["x"]]
        reader = LocalRun(chain.plans[1], upstream=[made])
        outcome = reader.run(7)
    since = max(seen, default=-1) + 1
    kept = answer_of(Query("w", (READINGS,), (ordered("w", "s"),), (Output("out", "w"),)), inputs)["out"]
    found = list(rows(outcome.batches["out"], outcome.schemas["out"]))
    assert_same_answer({"out": [row for row in kept if row[0] + 1 - 20 >= since]}, {"out": found})
    incomplete = sum(n.operator.incomplete for i in reader.instances for n in i.nodes if isinstance(n.operator, AggregateOperator))
    source = reader.instances[0].sources[0][0]
    assert source.since == (since if turns else MIN_TIME)
    assert (turns > 0) == bool(seen)
    assert incomplete == sum(row[0] >= since > row[0] + 1 - 20 for row in kept if turns)


# --- the source by itself --------------------------------------------------------------------------------------------


def batch(*times: int, origins: Sequence[tuple[int, ...]] | None = None) -> Batch:
    return Batch({}, np.array(times, np.int64), None if origins is None else np.array(origins, np.int64))


class Fed:
    """A source with two producers, and what they send."""

    def __init__(self, renumbering: Sequence[int] = (), sent_until: Sequence[int] = (MIN_TIME, MIN_TIME)) -> None:
        self.source = QuerySource("x", "A", (0, 1), renumbering)
        self.inboxes = [Inbox(f"A/x/{i}>B", 1000) for i in (0, 1)]
        self.sequences = [0, 0]
        for i, until in enumerate(sent_until):
            self.source.attach(i, self.inboxes[i], until)

    def send(self, producer: int, element: Element, watermark: int = MIN_TIME) -> Fed:
        self.inboxes[producer].accept(element, 1, self.sequences[producer], watermark, MIN_TIME)
        self.sequences[producer] += 1
        return self

    def polled(self) -> list[int]:
        found: list[int] = []
        while (got := self.source.read()) is not None:
            found += got.time.tolist()
        return found


def test_nothing_is_taken_before_every_producer_has_answered() -> None:
    fed = Fed(sent_until=(7,))
    fed.send(0, batch(8, 9), 5)
    assert fed.polled() == [] and "1 of the instances" in fed.source.waits_for(0)
    fed.source.attach(1, fed.inboxes[1], 8)
    assert fed.polled() == [9]
    assert (fed.source.since, fed.source.before_since, fed.source.watermark) == (9, 1, MIN_TIME)
    assert "A/x/1>B" in fed.source.waits_for(0)


def test_the_least_watermark_counts_and_idle_producers_are_asked_to_come_as_far_as_the_others() -> None:
    fed = Fed().send(0, batch(5), 4).send(1, Watermark(3), 3)
    assert (fed.polled(), fed.source.watermark) == ([5], 3)
    assert (fed.send(1, Idle(), 3).polled(), fed.source.watermark, fed.inboxes[1].returned, fed.source.idle) == ([], 3, 4, False)
    assert (fed.send(1, Idle(), 4).polled(), fed.source.watermark) == ([], 4)
    assert (fed.send(0, Idle(), 4).polled(), fed.source.watermark, fed.source.idle) == ([], 4, True)
    fed.source.follow(8)  # what the query that reads it wants
    assert (fed.source.watermark, [inbox.returned for inbox in fed.inboxes]) == (4, [8, 8])
    assert (fed.send(0, Idle(), 8).send(1, Idle(), 8).polled(), fed.source.watermark, fed.source.idle) == ([], 8, True)
    assert (fed.send(1, End()).polled(), fed.source.watermark, fed.source.ended) == ([], 8, False)
    assert (fed.send(0, End()).polled(), fed.source.watermark, fed.source.ended) == ([], MAX_TIME, True)
    assert "has ended" in fed.source.waits_for(0)


@pytest.mark.parametrize("element, why", [(Fail("SQ1", 1, "boom"), "failed in subquery 'SQ1' instance 1: boom"), (Stop(), "was stopped")])
def test_what_fails_or_is_stopped_ends_nothing(element: Element, why: str) -> None:
    fed = Fed().send(0, batch(5), 4).send(1, batch(6), 6)
    assert sorted(fed.polled()) == [5, 6]
    fed.send(1, element).send(0, batch(7), 7).send(0, End())
    fed.polled()
    assert (fed.source.watermark, fed.source.ended) == (4, False)
    assert why in fed.source.waits_for(0)
    assert not any(inbox.queue for inbox in fed.inboxes)


def test_the_orchestrators_word_that_it_is_lost() -> None:
    fed = Fed(sent_until=(7,))
    fed.source.lose("query 'A' is gone")
    assert fed.polled() == [] and "query 'A' is gone" in fed.source.waits_for(0)
    ended = Fed().send(0, End()).send(1, End())
    ended.polled()
    ended.source.lose("too late")
    assert ended.source.ended and "has ended" in ended.source.waits_for(0)


def test_origins_are_renumbered_and_hashes_are_not() -> None:
    origins = [(0 << 48 | 5, 1, 2), (1 << 48 | 6, 3, 4), (-7, 5, 6)]
    fed = Fed(renumbering=(1, 3)).send(0, batch(1, 2, 3, origins=origins))
    got = fed.source.read()
    assert got is not None and got.origin is not None
    assert got.origin.tolist() == [[1 << 48 | 5, 1, 2], [3 << 48 | 6, 3, 4], [-7, 5, 6]]


# --- plans -----------------------------------------------------------------------------------------------------------


LEFT = Query("left", (READINGS,), (PASSED,), (Output("x", "passed"),))


def reader(**changed: object) -> Query:
    return replace(Query("right", (), (ordered("w", "x"),), (Output("out", "w"),)), **changed)


def test_one_instance_reads_and_many_work() -> None:
    made = Chain(LEFT, reader(), options=Options(parallelism=3)).plans[1]
    assert [(s.name, s.streams, s.parallelism) for s in made.subqueries] == [("SQ1", ("x",), 1), ("SQ2", (), 3)]
    assert any("'x', an output of query 'left'" in note for note in made.notes)
    assert "output of query 'left', from 3 instances" in explain(made)
    again = physical.from_json(physical.to_json(made))
    assert physical.to_json(again) == physical.to_json(made) and again.feeds == made.feeds


@pytest.mark.parametrize(
    "changed, message, pointer",
    [
        ({"streams": (replace(READINGS, name="x"),)}, "leave out event_time and disorder", "/streams/0/event_time"),
        ({"streams": (Stream("x", Schema.of({"n": "int64"})),)}, "exists already with another schema", "/streams/0/schema"),
        (
            {"streams": (Stream("x", Schema((*READINGS.schema.fields, Field("more", INT64, True)))),)},
            "an output of query 'left' with the schema .*: it does not get column 'more' here; leave it out, or deploy that query",
            "/streams/0/schema/4",
        ),
        ({"operators": (PASSED,), "streams": (READINGS,), "outputs": (Output("x", "passed"), Output("y", "x"))}, "reads and writes", ""),
        ({"options": Options(replicas=2)}, "are not shared out among replicas", "/options/replicas"),
    ],
)
def test_what_cannot_be_planned(changed: dict[str, object], message: str, pointer: str) -> None:
    with pytest.raises(QueryError, match=message) as refused:
        Chain(LEFT, reader(**changed))
    assert refused.value.pointer.startswith(pointer)


def test_declaring_it_without_event_time_is_allowed() -> None:
    made = Chain(LEFT, reader(streams=(Stream("x", READINGS.schema),))).plans[1]
    assert set(made.feeds) == {"x"}


def test_late_rows_are_for_subscribers_only() -> None:
    late = plan(replace(LEFT, late="late"), {}, workers(MACHINE), MACHINE)
    with pytest.raises(QueryError, match="older than its watermark"):
        feed_of(late, 1, "late")


def test_ordinals_of_the_first_query_are_part_of_the_origins_in_the_second() -> None:
    split = FlatMap("each", "s", (("t", col("t")), ("k", lit("a,b").split(",")), ("v", col("v")), ("u", col("u"))), "k")
    made = plan(Query("left", (READINGS,), (split,), (Output("x", "each"),)), {}, workers(MACHINE), MACHINE)
    stream, feed = feed_of(made, 1, "x")
    again = plan(reader(), {"x": stream}, workers(MACHINE), MACHINE, feeds={"x": feed})
    assert (feed.origin_words, words(again, "x"), words(again, "w")) == (3, 3, 2)


@pytest.mark.parametrize("seed", range(3))
def test_elements_of_the_first_query_keep_their_order_in_the_second(seed: int) -> None:
    split = FlatMap("each", "s", (("k", lit("b,a").split(",")),), "k")
    pairs = Aggregate("pairs", "x", SizeWindow(2, 2), (), (("k", collect("k", 2)),))
    chain = Chain(Query("left", (READINGS,), (split,), (Output("x", "each"),)), Query("right", (), (pairs,), (Output("y", "pairs"),)))
    given_ = {"s": [Partition(0, [(time, "", 0, 0) for time in range(4)])]}
    with interpreted():
        ran = chain.run(given_, execution(2, seed))
    assert ran["y"] == [(time, (["b", "a"],)) for time in range(4)]
