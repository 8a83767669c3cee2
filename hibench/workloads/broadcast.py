"""Which visits earned a revenue within one of the bands of their window? A theta join with a small side stream.

The bands are made from the seed: in every window `BANDS` of them, each so wide that of revenues that are drawn evenly from 0 to 1 about
one in a hundred lies in one of them. Every instance gets all bands; the visits are dealt out in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from cep.model.streams import Stream
from driver import TIME, Query, col, files, now
from hibench.runs.answers import Shape
from hibench.workloads.workload import ADDRESS, CREATION, REPORTED, RunTerms, Workload

BANDS = 4
BAND_MILLIONTHS = 2_500
_MILLION = 1_000_000
_REVENUE = "ad_revenue"
MATCHED = Shape(pa.schema([("ip", pa.string()), ("ts", pa.int64()), ("revenue", pa.float64()), ("band", pa.int64())]), time="ts")


def broadcast_query(visits: Stream, terms: RunTerms) -> Query:
    """Map (address, time, revenue) → join with the bands of the window → map (adds the clock)."""
    bands = files(
        "bands", opens="timestamp[ms]", band=int, low=float, high=float, paths=[str(terms.side)], event_time="opens", disorder="0s"
    )
    return (
        Query("broadcast")
        .source(visits)
        .map("pick", ip=col(ADDRESS), ts=col(CREATION), revenue=col(_REVENUE))
        .join("within", bands, TIME(f"{terms.window_ms}ms"), condition=(col("low") <= col("revenue")) & (col("revenue") < col("high")))
        .map("report", {REPORTED: now()}, **{name: col(name) for name in MATCHED.schema.names})
    )


def side(terms: RunTerms, first_ms: int, last_ms: int) -> str:
    """The bands of all windows with an event time from `first_ms` to `last_ms`: opening of the window in ms, number, low, high."""
    windows = range(first_ms // terms.window_ms, last_ms // terms.window_ms + 1)
    rows = zip(windows, _lows(terms.seed, windows).tolist(), strict=True)
    return "".join(
        f"{window * terms.window_ms},{band},{low / _MILLION:.6f},{(low + BAND_MILLIONTHS) / _MILLION:.6f}\n"
        for window, lows in rows
        for band, low in enumerate(lows)
    )


def _lows(seed: int, windows: range) -> np.ndarray:
    """int64[windows, BANDS]: where each band begins, in millionths: the words of one block of a counter-based generator."""
    generator = np.random.Philox(counter=windows.start, key=np.array([seed, 3], np.uint64))
    draws = generator.random_raw(len(windows) * BANDS).reshape(-1, BANDS) >> np.uint64(32)
    return ((draws * np.uint64(_MILLION - BAND_MILLIONTHS)) >> np.uint64(32)).astype(np.int64)


def matched(tables: Iterable[pa.Table], terms: RunTerms) -> Iterator[pa.Table]:
    """The answers: every record against the bands of its window."""
    for table in tables:
        revenues, windows = np.asarray(table[_REVENUE]), np.asarray(table[CREATION]) // terms.window_ms
        bounds = _bounds(terms, windows)
        for band in range(BANDS):
            low, high = bounds[:, 2 * band], bounds[:, 2 * band + 1]
            rows = np.flatnonzero((low <= revenues) & (revenues < high))
            found = table.select([ADDRESS, CREATION, _REVENUE]).take(rows)
            yield pa.table([*found.columns, np.full(len(rows), band)], schema=MATCHED.schema)


def _bounds(terms: RunTerms, windows: np.ndarray) -> np.ndarray:
    """float64[rows, 2·BANDS]: low and high of every band of each row's window, as the side stream has them written."""
    first = int(windows.min(initial=windows[0] if len(windows) else 0))
    lows = _lows(terms.seed, range(first, int(windows.max(initial=first)) + 1))
    written = np.stack([lows, lows + BAND_MILLIONTHS], axis=2).reshape(len(lows), -1) / _MILLION
    of_rows: np.ndarray = written[windows - first]
    return of_rows


BROADCAST = Workload(
    name="broadcast",
    balancer="broadcast",
    line="which visits earned a revenue within one of the bands of their window: a theta join with a small side stream",
    behind="within",
    query=broadcast_query,
    shape=lambda terms: MATCHED,
    expected=matched,
    columns={CREATION: "timestamp[ms]", ADDRESS: str, _REVENUE: float},
    created="ts",
    by_window=True,
    events=2_000_000,
    side=side,
)
