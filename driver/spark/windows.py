"""TIME and SESSION windows as columns to group by."""

from __future__ import annotations

from pyspark.sql import Column, functions

from cep.model.windows import SessionWindow, TimeWindow, Window
from driver.spark.frames import SHIFT, TIME, watermarked

WINDOW = "__window"


def time_window(window: TimeWindow) -> Column:
    """A struct of start and end, shifted: starts are multiples of the advance in our time, and so not in Spark's."""
    return _aligned(window, SHIFT % window.advance).alias(WINDOW)


def session_window(window: SessionWindow) -> Column:
    """Spark parts rows that are its gap apart, which ours does only beyond it; the end is last + gap + 1."""
    return functions.session_window(TIME, _span(window.gap + 1)).alias(WINDOW)


def bounds(window: Window) -> dict[str, Column]:
    """What `window_start` and `window_end` yield where rows are grouped by one of these; of others nothing."""
    if not isinstance(window, TimeWindow | SessionWindow):
        return {}
    start, end = (functions.unix_micros(functions.col(WINDOW).getField(name)) - SHIFT for name in ("start", "end"))
    last = end - 1 if isinstance(window, SessionWindow) else end
    return {"window_start": functions.timestamp_micros(start), "window_end": functions.timestamp_micros(last)}


def window_end(window: TimeWindow, name: str) -> Column:
    """The ends of a join's windows, multiples of the advance, shifted: a row for each."""
    ends = _aligned(window, (SHIFT - window.size) % window.advance).getField("end")
    return watermarked(ends, name)


def _aligned(window: TimeWindow, start: int) -> Column:
    return functions.window(TIME, _span(window.size), _span(window.advance), _span(start))


def _span(micros: int) -> str:
    return f"{micros} microseconds"
