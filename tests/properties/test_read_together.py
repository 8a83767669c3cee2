"""Two streams of files that feed one operator are read side by side (`cep.plan.sources.read_together`): what waits for its join is as much
as a few pieces hold, however much longer the one is than the other; whatever lies in them, the query ends, with the reference's answer.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.dataflow.local import LocalRun, Outcome
from cep.kernels.jit import interpreted
from cep.model.expr import col
from cep.model.functions import count
from cep.model.operators import Aggregate, AsOfJoin, Filter, IntervalJoin, Join, Map, Operator, Union
from cep.model.query import Output, Query
from cep.model.schema import Schema
from cep.model.streams import Stream, TextFiles
from cep.model.windows import TimeWindow
from cep.plan.physical import PhysicalPlan
from cep.plan.sources import read_together
from tests.reference import assert_same_answer, blocks
from tests.strategies import Execution, executions
from tests.support.plans import one_node, planned
from tests.support.running import NOW_US, expected_of, outputs_of, plan_of, run

SCHEMA = Schema.of({"t": "timestamp[us]", "k": "int64", "v": "int64"})
TEN = TimeWindow(10, 10)


def stream(name: str, disorder: int = 0) -> Stream:
    return Stream(name, SCHEMA, col("t"), disorder, TextFiles((f"{name}.csv",), block_bytes=1024))


L, R, S = stream("l"), stream("r"), stream("s")
PUBLISHED = Stream("p", SCHEMA, col("t"), 0)


def interval(name: str, left: str, right: str) -> IntervalJoin:
    return IntervalJoin(name, left, right, -2, 3, (("k", "k"),), "inner", None, "r_")


def asked(streams: tuple[Stream, ...], *operators: Operator) -> Query:
    return Query("q", streams, operators, (Output("out", operators[-1].name),))


def waiting(streams: tuple[Stream, ...], *operators: Operator) -> list[str]:
    """The streams whose readers wait for those beside them."""
    made = planned(asked(streams, *operators), one_node(3))
    return [name for subquery in made.subqueries if read_together(made, subquery.name) for name in subquery.streams]


@pytest.mark.parametrize(
    "joined",
    [
        interval("j", "l", "r"),
        Join("j", "l", "r", TEN, TEN, (("k", "k"),), "inner", None, "r_"),
        AsOfJoin("j", "l", "r", (("k", "k"),), "left", None, "r_"),
    ],
)
def test_two_streams_of_files_that_feed_one_operator_wait_for_each_other(joined: Operator) -> None:
    assert waiting((L, R), joined) == ["l", "r"]


def test_so_they_do_behind_operators_without_state() -> None:
    assert waiting((L, R), Filter("f", "l", col("v") > 0), interval("j", "f", "r")) == ["l", "r"]


def test_nobody_waits_for_what_clients_send() -> None:
    assert waiting((L, PUBLISHED), interval("j", "l", "p")) == []


def test_what_feeds_another_operator_too_waits_for_nobody_beside_it() -> None:
    """The join behind would wait for what comes out of the first, which holds back three microseconds; the stream would wait for it, and
    that one for more of the stream."""
    assert waiting((L, R), interval("j", "l", "r"), Map("m", "j", (("k", col("k")), ("v", col("r_v")))), interval("k", "l", "m")) == []


def test_nor_does_what_is_joined_behind_an_operator_that_keeps_something() -> None:
    counted = Aggregate("a", "r", TEN, ("k",), (("v", count()),))
    assert waiting((L, R), counted, interval("j", "l", "a")) == []
    three = (interval("j", "l", "r"), Map("m", "j", (("k", col("k")), ("v", col("r_v")))), interval("n", "s", "m"))
    assert waiting((L, R, S), *three) == ["l", "r"]


# --- any schedule --------------------------------------------------------------------------------------------------------


def lines(draw: st.DrawFn, records: int) -> bytes:
    """Made from a seed: to draw each value takes longer than to run the query, and what is drawn of so many is much the same."""
    choose = random.Random(draw(st.integers(0, 2**32)))
    now, made = choose.randint(0, 30), list[str]()
    for _ in range(records):
        now = max(0, now + choose.choice([0, 0, 1, 1, 3, -2, 40]))
        made.append(f"{now},{choose.randint(0, 2)},{choose.randint(0, 9)}\n")
    return "".join(made).encode()


@st.composite
def cases(draw: st.DrawFn) -> tuple[Query, Mapping[str, bytes]]:
    disorders = draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    streams = tuple(stream(name, disorder) for name, disorder in zip("lr", disorders, strict=True))
    first = [Filter("f", "l", col("v") > 4)] if draw(st.booleans()) else []
    left = "f" if first else "l"
    joined = draw(
        st.sampled_from(
            [
                interval("j", left, "r"),
                Join("j", left, "r", TEN, TEN, (("k", "k"),), "inner", None, "r_"),
                AsOfJoin("j", left, "r", (("k", "k"),), "left", None, "r_"),
                Union("j", (left, "r")),
            ]
        )
    )
    operators: list[Operator] = [*first, joined]
    if draw(st.booleans()):
        operators.append(Aggregate("a", "j", TEN, ("k",), (("n", count()),)))
    # more than two blocks of a kilobyte each of the one, of the other few records or none
    sizes = draw(st.permutations([draw(st.integers(100, 700)), draw(st.integers(0, 40))]))
    return asked(streams, *operators), {name: lines(draw, size) for name, size in zip("lr", sizes, strict=True)}


@settings(max_examples=30)
@given(cases(), executions())
def test_whatever_lies_in_the_files_the_query_ends_with_the_references_answer(
    case: tuple[Query, Mapping[str, bytes]], execution: Execution
) -> None:
    query, data = case
    expected = expected_of(query, {s.name: blocks(query, s, {f"{s.name}.csv": data[s.name]}) for s in query.streams})
    with tempfile.TemporaryDirectory() as folder, interpreted():
        made = plan_of(query, execution, write(data, Path(folder)))
        ran = run(made, execution, {}, read_bytes=execution.batch_rows[0] * 20)
    assert_same_answer(outputs_of(query, expected), ran.outputs)
    assert ran.late == sum(map(len, expected.late.values()))


def write(data: Mapping[str, bytes], folder: Path) -> dict[str, list[tuple[str, int]]]:
    for name, content in data.items():
        (folder / f"{name}.csv").write_bytes(content)
    return {name: [(str(folder / f"{name}.csv"), len(content))] for name, content in data.items()}


# --- what is held --------------------------------------------------------------------------------------------------------


def most_held(made: PhysicalPlan) -> int:
    """Bytes of state of the join, at most."""
    local, held = LocalRun(made, {}, 1 << 20, lambda: NOW_US, 256), [0]

    def look() -> bool:
        held.append(sum(node.stateful.state_bytes for instance in local.instances for node in instance.nodes if node.stateful is not None))
        return local.is_over()

    local.drive(random.Random(1), Outcome(), look)
    return max(held)


@pytest.mark.parametrize("readers", [1, 2])
def test_what_a_join_holds_does_not_grow_with_its_files(tmp_path: Path, readers: int) -> None:
    """The right stream has a tenth of the records, so that it is read ten times as fast: all of it would lie there."""
    query = asked((L, R), interval("j", "l", "r"))
    query = replace(query, options=replace(query.options, parallelism=readers))
    held = []
    for records in (2_000, 6_000):
        data = {"l": every(1, records), "r": every(10, records)}
        (folder := tmp_path / str(records)).mkdir()
        with interpreted():
            held.append(most_held(planned(query, one_node(3), files={n: tuple(f) for n, f in write(data, folder).items()})))
    assert 0 < held[1] < 1.5 * held[0]


def every(step: int, until: int) -> bytes:
    return "".join(f"{time},{time % 7},{10**15}\n" for time in range(0, until, step)).encode()
