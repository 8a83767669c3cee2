"""That panes are thin, and windows made in one go, is not seen in the answers; but in the batches, and in what is held.

Tests `thin.py`, `thin_panes.py`, `firing.py`, `panes.py`, `running.py`, `cep/kernels/tables/pane_groups.py`,
`cep/dataflow/state/thin_batches.py`, `cep/dataflow/state/row_panes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.compile.aggregate.spec import AggregateSpec
from cep.compile.aggregate.window_state import WindowState
from cep.compile.windows import thin
from cep.elements import MAX_TIME, Batch
from cep.errors import QueryFailed
from cep.kernels.columns import Column
from cep.kernels.jit import interpreted
from cep.kernels.tables.keys import encode_keys
from cep.kernels.tables.pane_groups import pane_groups
from cep.model.functions import count
from cep.model.operators import Aggregate
from cep.model.schema import INT64, Field, Schema
from cep.model.windows import TIME
from numa_cep import CUMULATE, UNBOUNDED, Query, avg, col, collect, count_distinct, first, last, max_, stream, sum_, testing, window_start
from numa_cep import TIME as WINDOW
from numa_cep import count as counted
from tests.support.pausing import without_pauses

Row = dict[str, Any]

LEFT = stream("left", t="timestamp[ms]", k="string?", n="int64?", x="float64", event_time="t", disorder="40ms")
RIGHT = stream("right", t="timestamp[ms]", k="string?", m="int64", event_time="t", disorder="40ms")
WINDOWS = ("1ms", "3ms", "10ms")


def aggregated(window: Any, by: tuple[str, ...]) -> Query:
    functions = {"c": counted(), "s": sum_("x"), "a": avg("n"), "g": max_("k"), "b": window_start()}
    more = {"f": first("n"), "l": last("k"), "d": count_distinct("n"), "v": collect("x", at_most=3)}
    return Query("q").source(LEFT).aggregate("o", window, by=by, **functions, **more)


def joined(how: str, window: Any, right_window: Any = None, **options: Any) -> Query:
    return Query("q").source(LEFT).join("o", RIGHT, window, how=how, right_window=right_window, prefix="r_", **options)


QUERIES: dict[str, Callable[[], Query]] = {
    "tumbling": lambda: aggregated(WINDOW("3ms", offset="2ms"), ("k",)),
    "tumbling, no key": lambda: aggregated(WINDOW("1ms"), ()),
    "sliding": lambda: aggregated(WINDOW("10ms", "2ms"), ("k", "n")),
    "sliding, uneven": lambda: aggregated(WINDOW("7ms", "3ms", offset="1ms"), ("k",)),
    "cumulating": lambda: aggregated(CUMULATE("2ms", "8ms"), ("k",)),
    "periodic": lambda: aggregated(UNBOUNDED(every="3ms", ttl=None), ("k",)),
    "periodic, no key, that begins anew": lambda: aggregated(UNBOUNDED(every="2ms", ttl="5ms"), ()),
    "sort": lambda: Query("q").source(LEFT).sort("o", WINDOW("3ms"), by="k", order=("-x", "n")),
    "sort, sliding": lambda: Query("q").source(LEFT).sort("o", WINDOW("9ms", "3ms"), order="x"),
    "top": lambda: Query("q").source(LEFT).top("o", 2, WINDOW("4ms"), by="k", order="-x"),
    "top, sliding": lambda: Query("q").source(LEFT).top("o", 2, WINDOW("10ms", "2ms"), order="k"),
    "keep last": lambda: Query("q").source(LEFT).deduplicate("o", by="k", keep="last", window=WINDOW("3ms")),
    "sample": lambda: Query("q").source(LEFT).sample("o", n=2, window=WINDOW("5ms"), by="k"),
    "join": lambda: joined("inner", WINDOW("3ms"), on=("k", "k")),
    "left join": lambda: joined("left", WINDOW("6ms", "2ms"), on=("k", "k")),
    "full join": lambda: joined("full", WINDOW("5ms", "2ms"), WINDOW("3ms", "2ms"), on=("k", "k")),
    "theta join": lambda: joined("right", WINDOW("2ms"), condition=col("n") < col("r_m"), broadcast="left"),
}


@contextmanager
def limits(**values: int) -> Iterator[None]:
    """Constants of `thin` as these, inside."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setattr(thin, name, value)
        yield


NEVER = {"THIN_PANES_MIN": 1 << 40, "FEWEST": 1 << 40}
LIMITS = st.fixed_dictionaries(
    {
        "THIN_PANES_MIN": st.sampled_from([1, 2, 4]),
        "THIN_ROWS": st.sampled_from([1, 2, 64]),
        "PIECES_MAX": st.sampled_from([1, 2, 32]),
        "WASTE": st.sampled_from([1, 4]),
        "ROWS_AT_ONCE": st.sampled_from([1, 5, 1 << 17]),
        "FEWEST": st.sampled_from([1, 4]),
        "ROWS_EACH": st.sampled_from([1, 3, 1_024]),
    }
)
KEYS = st.sampled_from([None, "", "a", "b" * 15, "b" * 16, "c" * 16])
VALUES = st.tuples(st.integers(-30, 60), KEYS, st.none() | st.integers(0, 3), st.sampled_from([0.0, -0.0, 0.1, 1e16, -1e16]))
ROWS = st.lists(VALUES, max_size=40)


def of_left(t: int, k: str | None, n: int | None, x: float) -> Row:
    return {"t": 1_000 + t, "k": k, "n": n, "x": x}


def of_right(t: int, k: str | None, n: int | None, x: float) -> Row:
    return {"t": 1_000 + t, "k": k, "m": n or 0}


def answers(name: str, rows: list[tuple[Any, ...]], cuts: list[int], instances: int) -> list[str]:
    """Rows go to the streams a piece at a time; between two of these the watermark may let windows out."""
    with testing.run(QUERIES[name]().output("out"), instances=instances) as run:
        for start, stop in pairwise([0, *cuts, len(rows)]):
            for each, made in (("left", of_left), ("right", of_right)):
                values = [made(*row) for row in rows[start : stop : 1 if each == "left" else 2]]
                if values and each in run.streams:
                    run.send(each, values)
        run.close()
        return [repr(sorted(row.items())) for row in run.answers("out")]


@pytest.mark.parametrize("name", QUERIES)
@given(data=st.data(), rows=ROWS, limited=LIMITS, instances=st.integers(1, 2))
def test_answers_are_those_of_one_window_after_the_other(
    name: str, data: st.DataObject, rows: list[tuple[Any, ...]], limited: dict[str, int], instances: int
) -> None:
    rows = sorted(rows, key=lambda row: row[0] + data.draw(st.integers(0, 10)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    with limits(**NEVER):
        expected = answers(name, rows, cuts, instances)
    with limits(**limited):
        assert sorted(answers(name, rows, cuts, instances)) == sorted(expected)


SCHEMA = Schema.of({"t": "timestamp[us]", "k": "string"})


def state() -> WindowState:
    aggregate = Aggregate("o", "rows", TIME("10us"), ("k",), (("c", count()),))
    return WindowState(AggregateSpec.of(aggregate, SCHEMA, frozenset({"t"}), "whole"), "o")


def batch_of(times: list[int], key: str = "a") -> Batch:
    time = np.array(times, np.int64)
    keys = np.frombuffer(key.encode() * len(times), np.uint8)
    texts = Column(SCHEMA["k"].type, np.full(len(times), len(key), np.int32), None, keys, np.arange(len(times)) * len(key))
    return Batch({"t": Column(SCHEMA["t"].type, time), "k": texts}, time, np.column_stack([np.zeros(len(time), np.int64), time]))


def test_many_windows_come_out_as_few_batches() -> None:
    with interpreted():
        one = state()
        one.add(batch_of(list(range(0, 10_000, 10))))
        batches = list(without_pauses(one.advance(MAX_TIME)))
    assert sum(map(len, batches)) == 1_000 and len(batches) == 1
    assert batches[0].time.tolist() == list(range(9, 10_000, 10))
    assert one.bytes < 10_000


def test_what_is_far_ahead_does_not_hold_the_rows_it_came_with() -> None:
    """Each batch has a row of the year to come; of what came with it nothing is left."""
    with interpreted():
        one = state()
        for turn in range(60):
            one.add(batch_of([*range(turn * 1_000, turn * 1_000 + 1_000, 10), 10**12 + turn], key="k" * 20))
            list(without_pauses(one.advance(turn * 1_000 + 1_000)))
        assert one.bytes < 100_000
        assert sum(len(batch) for batch in without_pauses(one.advance(MAX_TIME))) == 6  # windows of the year to come


def test_what_is_thin_counts_for_the_limit() -> None:
    query = Query("q").source(LEFT).aggregate("o", WINDOW("1ms"), c=counted()).options(state_bytes_max=65_536).output("out")
    rows = [of_left(i, None, 0, 0.0) for i in range(5_000)]
    wrong = r"operator 'o': its state of \d+ bytes is over .* with 5000 panes open .*; largest keys: all rows \(5000 rows\)"
    with testing.run(query) as run, pytest.raises(QueryFailed, match=wrong):
        run.send("left", rows)


def test_groups_are_numbered_by_pane_and_key() -> None:
    texts = ["a", "b" * 20, "a", "b" * 20, "c" * 20, "b" * 20]
    lengths, body = np.array([len(text) for text in texts], np.int32), np.frombuffer("".join(texts).encode(), np.uint8)
    column = Column(SCHEMA["k"].type, lengths, None, body, np.cumsum(lengths) - lengths)
    numbers, firsts = pane_groups(encode_keys({"k": column}, (Field("k", SCHEMA["k"].type),)), np.array([0, 0, 0, 0, 0, 1]))
    assert numbers.tolist() == [0, 1, 0, 1, 2, 3] and firsts.tolist() == [0, 1, 4, 5]
    keys = encode_keys({"n": Column(INT64, np.arange(1_000) % 7)}, (Field("n", INT64),))
    many, firsts = pane_groups(keys, np.arange(1_000) // 500)
    places = {(i // 500, i % 7): int(number) for i, number in enumerate(many)}
    assert len(firsts) == 14 and sorted(places.values()) == list(range(14))
    assert all(many[i] == places[i // 500, i % 7] for i in range(1_000))
