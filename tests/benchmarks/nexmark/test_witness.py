"""What the witness says of answers that are not the expected ones."""

from __future__ import annotations

import pyarrow as pa

from benchmarks.nexmark.witness import Witness

ROWS = pa.table({"k": ["a", "a", "b"], "v": [1, 1, 2]})
SQL = "SELECT k, v FROM rows"


def difference(rows: pa.Table) -> str:
    return Witness({"rows": ROWS}).difference(SQL, rows)


def test_the_same_rows_in_any_order_and_under_any_names_are_equal() -> None:
    assert difference(ROWS.take([2, 0, 1]).rename_columns(["one", "two"])) == ""


def test_a_row_that_comes_less_often_is_missing() -> None:
    assert difference(ROWS.slice(1)) == "rows: expected 3, got 2; not there [('a', 1)], not expected []"


def test_a_row_that_comes_more_often_is_not_expected() -> None:
    assert difference(ROWS.take([0, 1, 2, 2])) == "rows: expected 3, got 4; not there [], not expected [('b', 2)]"


def test_another_value_is_both() -> None:
    other = pa.table({"k": ["a", "a", "b"], "v": [1, 1, 3]})
    assert difference(other) == "rows: expected 3, got 3; not there [('b', 2)], not expected [('b', 3)]"


def test_another_type_is_named() -> None:
    other = pa.table({"k": ["a", "a", "b"], "v": [1.0, 1.0, 2.0]})
    assert difference(other) == "columns: expected k string, v int64, got k string, v double"


def test_instants_are_compared_whatever_their_unit_and_zone() -> None:
    ours = pa.table({"t": pa.array([1_000_000], pa.timestamp("us", "UTC"))})
    assert Witness({"rows": pa.table({"t": pa.array([1_000], pa.timestamp("ms"))})}).difference("SELECT t FROM rows", ours) == ""
