"""TIME and SESSION windows as columns to group by."""

from __future__ import annotations

from pyspark.sql import Column, functions

from cep.model.windows import SessionWindow, TimeWindow, Window
from driver.spark.frames import SHIFT, TIME, watermarked

WINDOW = "__window"
#: µs by which rows are later where sessions are made of them.
SESSION_SHIFT = 1


def time_window(window: TimeWindow) -> Column:
    """A struct of start and end, shifted: starts are multiples of the advance, and the offset, in our time, and so not in Spark's."""
    return _aligned(window, (SHIFT + window.offset) % window.advance).alias(WINDOW)


def session_window(window: SessionWindow) -> Column:
    """Over rows whose `__time` is SESSION_SHIFT later than elsewhere: start and end, last + gap, are so too.

    Spark joins rows up to its gap apart, as we do, but closes a session when its watermark reaches last + gap, where a row that belongs
    to it may still come: behind an aggregate or a join one may be as early as the watermark. Of rows 1 µs later none may.
    """
    return functions.session_window(TIME, _span(window.gap)).alias(WINDOW)


def bounds(window: Window) -> dict[str, Column]:
    """What `window_start` and `window_ends` yield where rows are grouped by one of these; of others nothing."""
    if not isinstance(window, TimeWindow | SessionWindow):
        return {}
    shift = SHIFT + (SESSION_SHIFT if isinstance(window, SessionWindow) else 0)
    start, end = (functions.unix_micros(functions.col(WINDOW).getField(name)) - shift for name in ("start", "end"))
    return {"window_start": functions.timestamp_micros(start), "window_end": functions.timestamp_micros(end)}


def window_ends(window: TimeWindow, name: str) -> Column:
    """The ends of a join's windows, multiples of the advance, and the offset, shifted: a row for each."""
    ends = _aligned(window, (SHIFT + window.offset - window.size) % window.advance).getField("end")
    return watermarked(ends, name)


def _aligned(window: TimeWindow, start: int) -> Column:
    return functions.window(TIME, _span(window.size), _span(window.advance), _span(start))


def _span(micros: int) -> str:
    return f"{micros} microseconds"
