"""Tables of groups: growth, long keys, texts that change, and what is kept when a kernel stops for lack of room."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.compile.aggregate.rows import merge_in_pieces, run_loop
from cep.compile.aggregate.source import Loops, compile_loops, width_of
from cep.compile.aggregate.states import AggregateState, Count, TextExtreme
from cep.kernels.columns import columns_from_arrow
from cep.kernels.jit import warm
from cep.kernels.tables.growing import LARGE, grow
from cep.kernels.tables.keys import Keys, decode_keys, encode_keys
from cep.kernels.tables.table import ARENA_USED, SLOTS_MIN, FrozenTable, Table, compare_text, slots_for
from cep.model.schema import BINARY, Field, Schema

KEY = (Field("k", BINARY, True),)
TEXTS = st.one_of(
    st.none(), st.sampled_from([b"", b"a", b"a\0", b"x" * 14, b"x" * 15, b"x" * 16, b"x" * 15 + b"y"]), st.binary(max_size=30)
)
COUNT: tuple[AggregateState, ...] = (Count(),)
GREATEST: tuple[AggregateState, ...] = (TextExtreme(True, Field("v", BINARY, True)),)


def keys_of(values: list[bytes | None]) -> Keys:
    schema = Schema(KEY)
    return encode_keys(columns_from_arrow(pa.RecordBatch.from_pydict({"k": values}, schema.arrow), schema), KEY)


def loops_of(states: tuple[AggregateState, ...]) -> Loops:
    return compile_loops(states, {"v": BINARY})


def update(table: Table, states: tuple[AggregateState, ...], keys: Keys, *columns: np.ndarray) -> None:
    run_loop(loops_of(states).update, table, 0, len(keys), keys.w0, keys.w1, keys.data, np.zeros(len(keys), np.int64), *columns)


def texts_at(table: Table, place: int) -> list[bytes | None]:
    words = table.matrix[:, place : place + 2].T.copy().view(np.uint64)
    column = decode_keys(Keys(words[0], words[1], table.arena), KEY)["k"]
    valid = np.ones(len(column)) if column.valid is None else column.valid
    ends = column.starts + column.values
    return [column.data[start:end].tobytes() if there else None for start, end, there in zip(column.starts, ends, valid, strict=True)]


def counts(table: Table) -> dict[bytes | None, int]:
    return dict(zip(texts_at(table, 0), table.matrix[:, 2].tolist(), strict=True))


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Hypothesis watches every line that runs inside a property, a compiler's too."""
    for states in (COUNT, GREATEST):
        loops = loops_of(states)
        warm(loops.update, loops.merge)
    warm()


@settings(deadline=None)
@given(st.lists(st.lists(TEXTS, max_size=40), max_size=4))
def test_counts_like_a_dict(batches: list[list[bytes | None]]) -> None:
    expected: dict[bytes | None, int] = {}
    table, merged = Table.make(width_of(COUNT), 0), Table.make(width_of(COUNT), 0)
    for batch in batches:
        update(table, COUNT, keys_of(batch))
        for key in batch:
            expected[key] = expected.get(key, 0) + 1
    assert counts(table) == expected
    for other in (table, table.copy()):
        assert not list(merge_in_pieces(loops_of(COUNT), merged, other))
    assert counts(merged) == {key: 2 * count for key, count in expected.items()}


def test_grows_by_doubling_and_loses_nothing() -> None:
    table = Table.make(width_of(COUNT), 0)
    names = [b"%d" % i * (1 + i % 7) for i in range(5_000)]  # every length up to 28 bytes
    for _ in range(2):
        update(table, COUNT, keys_of(names))
    assert counts(table) == dict.fromkeys(names, 2)
    assert len(table.slots) == slots_for(5_000) == 16_384
    assert table.bytes < 5_000 * 100 + 2 * len(table.arena)


def test_long_keys_with_equal_hashes_are_different_groups() -> None:
    keys = keys_of([b"the first of two long keys", b"another long key", b"the first of two long keys"])
    forged = Keys(np.full(3, 7, np.uint64), keys.w1, keys.data)
    table = Table.make(width_of(COUNT), 0)
    update(table, COUNT, forged)
    assert counts(table) == {b"the first of two long keys": 2, b"another long key": 1}


def test_a_long_text_that_changes_is_written_over() -> None:
    table = Table.make(width_of(GREATEST), 0)
    values = [b"%020d" % i for i in range(10_000)]  # each greater than the one before
    keys, texts = keys_of([b"k"] * len(values)), keys_of(values)
    update(table, GREATEST, keys, texts.w0, texts.w1, texts.data)
    assert texts_at(table, 2) == [values[-1]]
    assert table.control[ARENA_USED] < 200
    longer = [b"z" * i for i in range(16, 2_000)]  # longer and greater
    keys, texts = keys_of([b"k"] * len(longer)), keys_of(longer)
    update(table, GREATEST, keys, texts.w0, texts.w1, texts.data)
    assert texts_at(table, 2) == [longer[-1]]
    assert table.control[ARENA_USED] < 4 * 2 * 2_000  # doubling: what is left behind is less than what is in use


@given(TEXTS, TEXTS)
def test_texts_compare_by_bytes_null_first(a: bytes | None, b: bytes | None) -> None:
    left, right = keys_of([a]), keys_of([b])
    got = compare_text(left.w0[0], left.w1[0], left.data, right.w0[0], right.w1[0], right.data)
    rank = [(value is not None, value or b"") for value in (a, b)]
    assert got == (rank[0] > rank[1]) - (rank[0] < rank[1])


@pytest.mark.parametrize(("rows", "slots"), [(0, SLOTS_MIN), (1, SLOTS_MIN), (32, 64), (33, 128), (64, 128), (65, 256), (100_000, 262_144)])
def test_half_of_the_slots_are_free(rows: int, slots: int) -> None:
    assert slots_for(rows) == slots and rows <= slots // 2
    assert Table.make(3, 0, rows).capacity == slots // 2


def test_arrays_grow_in_place_and_a_view_keeps_the_old_one() -> None:
    class Holder:
        array = np.arange(4)

    holder = Holder()
    for length in (LARGE // 8, LARGE // 4, LARGE):
        before = len(holder.array)
        grow(holder, "array", length)
        assert len(holder.array) == length
        assert holder.array[:4].tolist() == [0, 1, 2, 3]
        holder.array[before:] = 7
    view = holder.array[:6]
    grow(holder, "array", 2 * LARGE)
    holder.array[0] = -1
    assert view.tolist() == [0, 1, 2, 3, 7, 7]
    assert holder.array[:6].tolist() == [-1, 1, 2, 3, 7, 7]


def test_a_frozen_table_stays_as_it_was_and_its_memory_is_used_again() -> None:
    table, spare = Table.make(3, 0), list[np.ndarray]()
    update(table, COUNT, keys_of([b"a", b"long" * 9]))
    frozen = FrozenTable(table, spare)
    update(table, COUNT, keys_of([b"a", b"more" * 9]))
    assert counts(frozen.table) == {b"a": 1, b"long" * 9: 1} and counts(table)[b"a"] == 2
    del frozen
    (memory,) = spare
    assert len(memory) >= table.rows * table.width, "with room for more"
    again = FrozenTable(table, spare)
    assert not spare and np.shares_memory(again.table.entries, memory) and counts(again.table) == counts(table)


def test_entries_that_are_put_are_found_when_they_have_their_slots() -> None:
    there = Table.make(3, 0)
    update(there, COUNT, keys_of([b"%d" % i for i in range(100)]))
    table = Table.make(3, 0, 100)
    for start in range(0, 100, 30):
        assert table.put(there.matrix[start : start + 30])
    table.find_all()
    update(table, COUNT, keys_of([b"7", b"new"]))
    assert counts(table) == {b"%d" % i: 1 for i in range(100)} | {b"7": 2, b"new": 1}


def test_entries_that_have_no_room_are_not_put() -> None:
    full = Table.make(3, 0, SLOTS_MIN // 2)
    assert not full.put(np.zeros((SLOTS_MIN // 2 + 1, 3), np.int64)) and not full.rows


def test_blocks_are_put_in_their_places() -> None:
    """In any order; of the last one there are two entries."""
    entries, table = np.arange(10 * 3).reshape(10, 3), Table.make(3, 0, 10)
    for numbers in ([1], [0, 2]):
        table.put_blocks(np.concatenate([entries[4 * k : 4 * k + 4] for k in numbers]), np.array(numbers), 4)
    assert table.entries[: 10 * 3].tolist() == entries.reshape(-1).tolist()
