"""StatefulMap with a user's function: for each row of a group in stream order, with the state that it returned for the one before.

n     1    4    2    13    5
rises      1         †     2        † fails: the state stays, however it was spoiled

Tests `stateful_function.py`, `cep/compile/user/state.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pytest

from cep.compile.user.functions import allowed
from cep.compile.user.state import packed, state_from_text, state_to_text, unpacked
from cep.compile.user.values import WrongResult
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.operators.stateful_function import StatefulFunctionOperator
from cep.dataflow.state.group_memory import SWEEP_ROWS
from cep.dataflow.state.hold import Hold
from cep.elements import MAX_TIME
from cep.errors import StateLimitExceeded
from cep.model.operators import StatefulMap
from cep.model.schema import Schema
from driver import Query, stream
from tests.support import functions_of_users as functions
from tests.support.single_operator import (
    FLOATS,
    WORDS,
    Row,
    Tuple,
    as_planned,
    batch_of,
    drawn,
    key_of,
    made,
    planned_rows,
    query_of,
    run_alone,
    run_planned,
    run_restored,
    watermark,
    without_origins,
)

MODULE = "tests.support.functions_of_users"
SCHEMA = Schema.of({"t": "timestamp[us]", "word": "string?", "x": "float64?", "n": "int64"})
RISES = Schema.of({"n": int, "times": int})
COUNT = Schema.of({"count": int})
BY: tuple[tuple[str, ...], ...] = ((), ("word",), ("x",), ("word", "x"))


@pytest.fixture(autouse=True)
def _modules() -> Iterator[None]:
    with allowed(MODULE):
        yield


def described(name: str, by: Sequence[str], ttl: int | None, schema: Schema) -> StatefulMap:
    return StatefulMap("f", "s", tuple(by), ttl, function=f"{MODULE}:{name}", columns=("n",), schema=schema)


def operator(
    name: str = "rising",
    by: Sequence[str] = ("word",),
    ttl: int | None = None,
    schema: Schema = RISES,
    letters: DeadLetters | None = None,
    limit: int = 1 << 30,
) -> StatefulFunctionOperator:
    dead = DeadLetters() if letters is None else letters
    return StatefulFunctionOperator(described(name, by, ttl, schema), Hold(SCHEMA, 2, False), limit, dead)


def row(choose: random.Random) -> Row:
    return {"t": 0, "word": choose.choice(WORDS), "x": choose.choice(FLOATS), "n": choose.choice((1, 2, 3, 4, 5, 13))}


def timed(arrivals: Iterable[Tuple]) -> list[Tuple]:
    return [Tuple(each.time, each.origin, {**each.row, "t": each.time}) for each in arrivals]


def one_group(numbers: Sequence[int]) -> list[Tuple]:
    return timed(Tuple(k, (0, k), {"word": "a", "x": 0.0, "n": n}) for k, n in enumerate(numbers))


def rises(tuples: Iterable[Tuple], by: Sequence[str], ttl: int | None) -> list[Tuple]:
    """The oracle."""
    states: dict[object, tuple[int, int, int]] = {}
    found = []
    for each in sorted(tuples, key=lambda each: each.place):
        key, n = key_of(each.row, by), each.row["n"]
        last, times, touched = states.get(key, (None, 0, each.time))
        if last is None or (ttl is not None and each.time - touched > ttl):
            states[key] = (n, 0, each.time)
        elif n != 13:
            states[key] = (n, times + (n > last), each.time)
            if n > last:
                found.append(Tuple(each.time, each.origin, {"n": n, "times": times + 1}))
    return found


def test_the_drawing() -> None:
    letters = DeadLetters()
    out = run_alone(operator(letters=letters), one_group((1, 4, 2, 13, 5)), SCHEMA, random.Random(0))
    assert [(each.time, each.row) for each in out] == [(1, {"n": 4, "times": 1}), (4, {"n": 5, "times": 2})]
    (letter,) = letters.take(9)
    assert letter.reason == "rising('state', 13): ValueError: thirteen"
    assert letter.position == "event time 1970-01-01T00:00:00.000003Z, record 3, group word='a'"


@pytest.mark.parametrize("seed", range(12))
def test_as_the_oracle(seed: int) -> None:
    choose = random.Random(seed)
    by, ttl = choose.choice(BY), choose.choice((None, 1, 7, 1000))
    arrivals = timed(drawn(choose, choose.randrange(200), row))
    expected = made(rises(arrivals, by, ttl))
    assert made(run_alone(operator(by=by, ttl=ttl), arrivals, SCHEMA, choose)) == expected
    assert made(run_restored(lambda: operator(by=by, ttl=ttl), by, arrivals, SCHEMA, choose)) == expected


@pytest.mark.parametrize("seed", range(5))
def test_in_a_plan(seed: int) -> None:
    choose = random.Random(seed)
    by, ttl = choose.choice(BY), choose.choice((None, 7))
    arrivals = timed(drawn(choose, 100, row))
    ran = run_planned(query_of(SCHEMA, described("rising", by, ttl, RISES)), arrivals, choose)
    assert planned_rows(ran) == without_origins(rises(as_planned(arrivals), by, ttl))


@pytest.mark.parametrize(
    ("name", "schema", "message"),
    [
        ("remembers_set", Schema.of({"n": int}), "a state is made of None, bool, int, .*; got set in it"),
        ("remembers_all", RISES, r"expected an output of 2 values \(n, times\), or None, got \(1,\)"),
        ("remembers_all", Schema.of({"n": str}), "expected string, got int 1"),
        ("no_pair", COUNT, r"expected \(state, output\), got int"),
    ],
)
def test_what_it_returns_is_checked(name: str, schema: Schema, message: str) -> None:
    letters = DeadLetters()
    assert run_alone(operator(name, schema=schema, letters=letters), one_group((1, 2)), SCHEMA, random.Random(0)) == []
    found = letters.take(9)
    assert len(found) == 2
    for each in found:
        assert each.position.endswith("group word='a'")
        with pytest.raises(AssertionError, match=message):
            raise AssertionError(each.reason)


STATES = (None, True, 7, -(2**90), 0.5, float("inf"), "é\0", b"\xff", [], [1, [2]], (1, "a"), {"a": (1, b"b"), 3: [None], (1, 2): {}})


@pytest.mark.parametrize("state", STATES, ids=repr)
def test_states_are_written_and_read(state: object) -> None:
    found = state_from_text(state_to_text(state))
    assert found == state and repr(found) == repr(state)
    assert repr(unpacked(packed(state))) == repr(state)


@pytest.mark.parametrize(
    "state", [{1}, [object()], {"a": np.float64(1)}, {"b": bytearray(b"b")}, np.zeros(3), 1j, ...], ids=lambda state: type(state).__name__
)
def test_what_is_no_state(state: object) -> None:
    with pytest.raises(WrongResult, match=r"got (float64|bytearray|ndarray|object|complex|ellipsis|set) in it"):
        packed(state)


def test_it_stops_at_its_limit() -> None:
    grows = operator("remembers_all", schema=COUNT, limit=20_000)
    with pytest.raises(StateLimitExceeded, match=r"operator 'f': its state of \d+ bytes is over the limit of 20000 bytes, with 1 groups"):
        for start in range(0, 100_000, 100):
            batch = [Tuple(start + k, (0, start + k), {"t": start + k, "word": "a", "x": 0.0, "n": k}) for k in range(100)]
            list(grows.on_batch(batch_of(batch, SCHEMA), 0))
            list(watermark(grows, start + 100))


def test_what_the_ttl_has_passed_is_swept() -> None:
    swept = operator("remembers_all", ttl=10, schema=COUNT)
    for start in range(0, 3 * SWEEP_ROWS, SWEEP_ROWS):
        numbers = range(start, start + SWEEP_ROWS)
        batch = [Tuple(k, (0, k), {"t": k, "word": f"key number {k}", "x": 0.0, "n": k}) for k in numbers]
        list(swept.on_batch(batch_of(batch, SCHEMA), 0))
        list(watermark(swept, start + SWEEP_ROWS))
    assert sum(part.batch.num_rows for part in swept.snapshot()) < SWEEP_ROWS
    kept = swept.groups.values[0][swept.groups.touched]
    assert swept.groups.state_bytes == sum(map(len, kept)) > 0
    list(watermark(swept, MAX_TIME))


def test_the_builder_and_the_note() -> None:
    visits = stream("s", {"t": "timestamp[us]", "word": "string?", "x": "float64?"}, n=int)
    query = Query("q").source(visits)
    query = query.stateful_function("f", functions.rising, "n", {"n": int, "times": int}, by="word", ttl="7us")
    assert query.output("out").build().operators == (described("rising", ("word",), 7, RISES),)
    (note,) = operator().notes
    assert "runs row by row as plain Python" in note
