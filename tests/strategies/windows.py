"""Windows of every kind, of a few ticks or tuples, so that several close and overlap."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from cep.model.schema import Schema
from cep.model.windows import CumulateWindow, SessionWindow, SizeWindow, TimeWindow, TransactionWindow, UnboundedWindow, Window
from tests.strategies.expressions import conditions


def windows_of(kind: str, schema: Schema, tick: int) -> SearchStrategy[Window]:
    """`kind` as `tests.support.kinds` names it; `tick` is µs."""
    match kind:
        case "cumulate":
            return cumulating(tick)
        case "size":
            return sizes()
        case "session":
            return st.builds(SessionWindow, spans(tick))
        case "transaction":
            return st.builds(TransactionWindow, conditions(schema), conditions(schema))
        case "running":
            return st.builds(UnboundedWindow, st.none(), st.none() | spans(tick))
        case "periodic":
            return periodic(tick)
    return time_windows(tick)


@st.composite
def time_windows(draw: DrawFn, tick: int, overlap_max: int = 7) -> TimeWindow:
    """Tumbling or sliding, with an advance that need not divide the size, now and then not of whole ticks or with an offset."""
    size = draw(st.integers(1, 20)) * tick + draw(st.sampled_from((0, 0, 0, 1)))
    tumbling = overlap_max == 1 or draw(st.booleans())
    advance = size if tumbling else draw(st.integers(max(1, -(-size // overlap_max)), size))
    return TimeWindow(size, advance, draw(st.just(0) | st.integers(0, advance - 1)))


@st.composite
def cumulating(draw: DrawFn, tick: int) -> CumulateWindow:
    step = draw(st.integers(1, 6)) * tick + draw(st.sampled_from((0, 0, 1)))
    size = step * draw(st.integers(1, 5))
    return CumulateWindow(step, size, draw(st.just(0) | st.integers(0, size - 1)))


@st.composite
def sizes(draw: DrawFn) -> SizeWindow:
    size = draw(st.integers(1, 5))
    return SizeWindow(size, draw(st.integers(1, size)))


@st.composite
def periodic(draw: DrawFn, tick: int) -> UnboundedWindow:
    every = draw(st.integers(1, 8)) * tick
    return UnboundedWindow(every, draw(st.none() | st.integers(0, 4).map(lambda more: every + more * tick)))


def spans(tick: int) -> SearchStrategy[int]:
    """Now and then not of whole ticks."""
    return st.builds(lambda ticks, more: ticks * tick + more, st.integers(1, 8), st.sampled_from((0, 0, 0, 1)))
