"""Idle, Awake and `advance`: a silent publisher holds nothing back, and all that was numbered has one answer (rule 4.12)."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import strategies as st

from cep.dataflow.channel import Inbox
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.local import LocalRun, Outcome
from cep.dataflow.sources.published import PublishedSource
from cep.dataflow.sources.publishers import Closing, PublisherPartition
from cep.elements import MIN_TIME, Element, Idle, Watermark
from cep.errors import QueryError
from cep.kernels.jit import interpreted
from cep.model.expr import ColumnRef, col
from cep.model.functions import count
from cep.model.operators import Aggregate, AsOfJoin, Delay, Filter, Union
from cep.model.query import Options, Output, Query
from cep.model.schema import Schema
from cep.model.streams import Stream, from_json, to_json
from cep.model.windows import TimeWindow
from tests.reference import Partition, assert_same_answer
from tests.strategies import Case, Execution, cases, executions
from tests.strategies.seeded import drawn
from tests.support.live import opened, run_live
from tests.support.relocating import Relocating
from tests.support.running import expected_of, outputs_of, plan_of, ran_of, rows, run_case

ONE_WAY = Execution(Options(parallelism=1), (1,), (), (0,), 1 << 20, 0)

# --- a source ----------------------------------------------------------------------------------------------------------


def source_of(*names: str, may_idle: bool = True) -> PublishedSource:
    source = PublishedSource("s", 0, 0, True, DeadLetters(), may_idle=may_idle)
    for number, name in enumerate(names):
        source.open(PublisherPartition(name, number, Inbox(name, 1 << 20)))
    return source


def say(source: PublishedSource, name: str, *elements: Element | Closing, promised: int = MIN_TIME) -> None:
    inbox = source.publishers[name].inbox
    for element in elements:
        inbox.accept(element, 0, inbox.sequence, element.time if isinstance(element, Watermark) else promised, MIN_TIME)
    source.read()


def test_nobody_waits_for_an_idle_publisher_and_it_starts_anew_where_the_others_are() -> None:
    source = source_of("a", "b")
    say(source, "a", Watermark(50))
    assert source.watermark == MIN_TIME
    say(source, "b", Idle())
    assert (source.watermark, source.idle) == (50, False)
    assert source.wake("b") == 50
    say(source, "a", Watermark(60))
    assert source.watermark == 50
    assert "publisher b" in source.waits_for(0)
    say(source, "b", Watermark(70))
    assert source.watermark == 60


def test_where_all_are_idle_it_promises_what_is_wanted_and_no_more() -> None:
    source = source_of("a", "b")
    say(source, "a", Watermark(5), Idle(), promised=5)
    say(source, "b", Watermark(9), Idle(), promised=9)
    assert (source.watermark, source.idle) == (9, True)
    assert not source.follow(7) and source.follow(20)
    assert source.watermark == 20
    assert "idle are a, b" in source.waits_for(0)
    assert (source.wake("a"), source.idle) == (20, False)
    assert not source.follow(30)
    assert source.watermark == 20
    assert "idle: b" in source.waits_for(0)


def test_one_that_awakes_before_its_silence_was_taken_was_never_idle() -> None:
    source = source_of("a")
    inbox = source.publishers["a"].inbox
    inbox.accept(Watermark(5), 0, 0, 5, MIN_TIME)
    inbox.accept(Idle(), 0, 1, 5, MIN_TIME)
    assert source.wake("a") == MIN_TIME
    inbox.accept(Watermark(6), 0, 2, 6, MIN_TIME)
    source.read()
    assert (source.watermark, source.idle) == (6, False)


def test_elements_sent_once_more_are_no_silence() -> None:
    """What followed an Idle has come with it: nothing may be promised beyond it."""
    source = source_of("a")
    say(source, "a", Watermark(5), Idle(), Watermark(8), promised=5)
    assert (source.watermark, source.idle) == (8, False)


def test_one_that_dies_idle_or_closes_leaves_the_stream_idle_until_another_opens() -> None:
    for may_idle in (True, False):
        source = source_of("a", may_idle=may_idle)
        say(source, "a", Watermark(5), Idle(), promised=5)
        source.vanish("a")
        assert (source.publishers, source.idle, list(source.vanished)) == ({}, may_idle, ["a"])
        assert source.follow(9) == may_idle
        assert "no publisher is open (vanished: a)" in source.waits_for(0) or not may_idle
        assert source.open(PublisherPartition("b", 1, Inbox("b", 1 << 20))) == (9 if may_idle else 5)
        assert not source.idle
        say(source, "b", Closing("b", False))
        assert source.idle == may_idle


def test_before_the_first_publisher_nothing_is_idle() -> None:
    source = source_of()
    assert not source.idle and not source.follow(7)
    assert source.watermark == MIN_TIME


# --- a query -----------------------------------------------------------------------------------------------------------

ORDERS = Stream("orders", Schema.of({"t": "timestamp[us]", "k": "int64", "n": "int64"}), ColumnRef("t"), 0)
META = Stream("meta", Schema.of({"t": "timestamp[us]", "k": "int64", "price": "int64"}), ColumnRef("t"), 0, idle_after=5_000_000)
PRICED = Query("priced", (META, ORDERS), (AsOfJoin("j", "orders", "meta", (("k", "k"),), "left", None, "r_"),), (Output("out", "j"),))
SPREAD = replace(
    PRICED,
    operators=(
        Filter("of", "orders", col("n") > 0),
        Delay("later", "meta", 2),
        AsOfJoin("j", "of", "later", (("k", "k"),), "left", None, "r_"),
        Aggregate("w", "j", TimeWindow(10, 10), ("k",), (("n", count()),)),
    ),
    outputs=(Output("out", "w"),),
)


def settle(run: LocalRun) -> None:
    choose = random.Random(0)
    while run.turn(choose):
        pass


def out(run: LocalRun) -> list[tuple[int, tuple[object, ...]]]:
    outcome = run.collect(Outcome())
    return sorted(rows(outcome.batches["out"], outcome.schemas["out"]))


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("split", ["single", "stateful", "per-operator"])
def test_an_as_of_join_with_metadata_published_once(parallelism: int, split: str) -> None:
    execution = replace(ONE_WAY, options=Options(parallelism=parallelism, split=split))
    made = plan_of(replace(PRICED, options=execution.options), execution)
    partitions = {
        "meta": [Partition(0, [(1, 1, 100), (3, 2, 200), (55, 1, 101), (60, 1, 102)])],
        "orders": [Partition(0, [(t, 1 + t % 20 // 10, t) for t in (10, 20, 30, 40, 50, 70)])],
    }
    choose = random.Random(0)
    with interpreted():
        run, (meta, orders) = opened(made, partitions, execution)
        assert (meta.stream.name, orders.stream.name) == ("meta", "orders")
        meta.send(choose), meta.send(choose)
        for _ in range(5):
            orders.send(choose)
        settle(run)
        assert out(run) == []  # metadata might still come
        meta.sleep()
        settle(run)
        assert [(time, values[-1]) for time, values in out(run)] == [(10, 200), (20, 100), (30, 200), (40, 100)]
        orders.send(choose)  # at 70
        settle(run)
        assert [time for time, _ in out(run)] == [10, 20, 30, 40, 50]
        meta.send(choose)  # it wakes up with rows at 55 and 60: all have gone on to 70
        assert meta.marks[-1][1].stamp == 70  # type: ignore[union-attr]
        meta.send(choose)
        meta.sleep()
        orders.close(True, frozenset())
        settle(run)
        assert [time for time, _ in out(run)] == [10, 20, 30, 40, 50, 70]  # what the join holds comes when the other has ended
        meta.close(True, frozenset())
        ran = ran_of(run.run())
    inputs = {"meta": [meta.sent()], "orders": [orders.sent()]}
    expected = expected_of(PRICED, inputs)
    assert_same_answer(outputs_of(PRICED, expected), ran.outputs)
    assert ran.late == sum(map(len, expected.late.values())) == 2


def test_what_lies_behind_several_steps_and_a_delay_is_asked_for() -> None:
    execution = replace(ONE_WAY, options=Options(parallelism=2, split="per-operator"))
    made = plan_of(replace(SPREAD, options=execution.options), execution)
    partitions = {"meta": [Partition(0, [(1, 1, 100)])], "orders": [Partition(0, [(t, 1, t) for t in (5, 15, 25)])]}
    choose = random.Random(0)
    with interpreted():
        run, (meta, orders) = opened(made, partitions, execution)
        meta.send(choose)
        for _ in range(3):
            orders.send(choose)
        meta.sleep()
        settle(run)
        assert [time for time, _ in out(run)] == [9, 19]
        assert {source.watermark for source in meta.readers} == {23}  # the delay is not asked for


@pytest.mark.parametrize("split", ["single", "per-operator"])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_stream_that_is_idle_while_instances_move(split: str, parallelism: int) -> None:
    execution = replace(ONE_WAY, options=Options(parallelism=parallelism, split=split))
    made = plan_of(replace(PRICED, options=execution.options), execution)
    partitions = {
        "meta": [Partition(0, [(1, 1, 100), (55, 1, 101), (70, 1, 102)])],
        "orders": [Partition(0, [(t, 1, t) for t in (10, 20, 30, 40, 50, 60, 75)])],
    }
    choose = random.Random(1)
    with interpreted():
        run, (meta, orders) = opened(made, partitions, execution)
        meta.send(choose), orders.send(choose), orders.send(choose), meta.sleep()
        settle(run)
        assert [time for time, _ in out(run)] == [10]
        for number, instance in enumerate(list(run.instances), 1):
            relocating = Relocating(run, instance, number)
            while not relocating.is_over():
                run.turn(choose)
        orders.send(choose), orders.send(choose)
        settle(run)
        assert [time for time, _ in out(run)] == [10, 20, 30]
        for _ in range(3):
            orders.send(choose)
        for _ in range(2):
            meta.send(choose)
        orders.close(True, frozenset()), meta.close(True, frozenset())
        ran = ran_of(run.run())
    expected = expected_of(PRICED, {"meta": [meta.sent()], "orders": [orders.sent()]})
    assert_same_answer(outputs_of(PRICED, expected), ran.outputs)


def test_a_union_of_what_is_idle_stands() -> None:
    """No input is ahead."""
    query = Query("u", (replace(META, name="a"), replace(META, name="b")), (Union("all", ("a", "b")), *_windows()), (Output("out", "w"),))
    made = plan_of(query, ONE_WAY)
    with interpreted():
        run, (a, b) = opened(made, {n: [Partition(0, [(1, 1, 1), (99, 1, 1)])] for n in "ab"}, ONE_WAY)
        choose = random.Random(0)
        a.send(choose), b.send(choose), a.sleep(), b.sleep()
        settle(run)
        assert out(run) == []
        b.send(choose)
        settle(run)
        assert [time for time, _ in out(run)] == [9]
        a.sleep()
        assert a.idle and not b.idle


def _windows() -> tuple[Aggregate, ...]:
    return (Aggregate("w", "all", TimeWindow(10, 10), ("k",), (("n", count()),)),)


# --- any query ---------------------------------------------------------------------------------------------------------


def check(case: Case, execution: Execution, dying: bool) -> None:
    streams = tuple(replace(stream, idle_after=1_000_000) if execution.seed % 2 else stream for stream in case.query.streams)
    query = replace(case.query, streams=streams)
    made = plan_of(query, execution)
    run, lives = opened(made, case.inputs, execution)
    ran = ran_of(run_live(run, lives, execution, dying))
    inputs = {name: [live.sent() for live in lives if live.stream.name == name] for name in made.streams}
    expected = expected_of(query, inputs)
    assert_same_answer(outputs_of(query, expected), ran.outputs)
    assert ran.late == sum(map(len, expected.late.values()))
    assert ran.dead == expected.dead_counts()
    again = run_case(Case(query, inputs), replace(execution, batch_rows=(2, 1), credit_bytes=1))
    assert_same_answer(outputs_of(query, expected), again.outputs)
    assert again.late == ran.late


def drawn_check(seed: int, operators_max: int) -> None:
    case, execution = drawn(st.tuples(cases(operators_max), executions()), f"quiet {seed}")
    with interpreted():
        check(case, execution, dying=seed % 4 == 0)


@pytest.mark.parametrize("seed", range(24))
def test_the_answer_is_that_of_the_numbered_elements_alone(seed: int) -> None:
    drawn_check(seed, 3)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_long_any_query() -> None:
    for seed in range(24, 3000):
        drawn_check(seed, 3 + seed % 4)


# --- declarations ------------------------------------------------------------------------------------------------------


def test_declarations_are_read_as_they_are_written() -> None:
    for stream in (META, replace(META, idle_after=None, watermark="clock")):
        assert from_json(to_json(stream)) == stream
    assert to_json(META)["idle_after"] == "5s"


@pytest.mark.parametrize(
    "declared, said",
    [
        ({"idle_after": "1ms"}, "idle_after of stream 's': expected at least 100ms"),
        ({"idle_after": 5}, "idle_after: expected a whole number and a unit"),
        ({"watermark": "now"}, "watermark of stream 's': expected 'clock' or nothing, got 'now'"),
        ({"watermark": "clock", "idle_after": "1s"}, "never idle; leave out one"),
        ({"idle_after": "1s", "files": {"paths": ["x"]}}, "files, which are never silent"),
        ({"watermark": "clock", "event_time": None, "disorder": None}, "declares no event_time"),
    ],
)
def test_declarations_that_are_refused(declared: dict[str, object], said: str) -> None:
    document = {"name": "s", "schema": [{"name": "t", "type": "timestamp[us]"}], "event_time": "t", "disorder": "0s"}
    with pytest.raises(QueryError, match=said):
        from_json(document | declared)
