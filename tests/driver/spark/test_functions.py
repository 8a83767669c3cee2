"""Spark has the aggregate functions that the engine has."""

from __future__ import annotations

from cep.model.functions import FUNCTIONS
from driver.spark.functions import _FUNCTIONS


def test_none_is_forgotten() -> None:
    of_windows = {"window_start", "window_end"}  # made with the window
    of_over = {"lag", "row_number"}  # `over` is refused as a whole
    assert _FUNCTIONS.keys() == FUNCTIONS.keys() - of_windows - of_over
