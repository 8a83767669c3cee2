"""Instants in formats of the query's own: what the kernels write and read is what the reference does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cep.compile.chain.time_text import parsed, written
from cep.kernels.column import Column
from cep.kernels.columns import from_arrow, to_arrow
from cep.model.schema import STRING, TIMESTAMP_US
from cep.model.times.formats import DIRECTIVES
from tests.reference.functions import format_time, parse_time

INSTANTS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-62_200_000_000_000_000, 253_402_300_800_000_000),  # about the years 0 to 9999
    st.sampled_from((0, -1, -62_167_219_200_000_001, -62_135_596_800_000_000, 951_782_399_999_999, 253_402_300_799_999_999)),
)
BETWEEN = st.sampled_from(("", "-", "%%", "é", " ", "0"))


@st.composite
def formats(draw: st.DrawFn, readable: bool) -> str:
    letters = "YjHMSf" if readable and draw(st.booleans()) else "YmdHMSf" if readable else DIRECTIVES
    chosen = draw(st.lists(st.sampled_from(letters), max_size=7, unique=readable))
    return "".join(draw(BETWEEN) + f"%{letter}" for letter in chosen) + draw(BETWEEN)


def texts_of(column: Column) -> list[str | None]:
    found: list[str | None] = to_arrow(column).to_pylist()
    return found


@given(st.lists(st.none() | INSTANTS, max_size=20), formats(readable=False))
def test_instants_are_written_as_the_reference_does(instants: list[int | None], form: str) -> None:
    valid = np.array([each is not None for each in instants], np.uint8)
    column = Column(TIMESTAMP_US, np.array([each or 0 for each in instants], np.int64), None if valid.all() else valid)
    assert texts_of(written(column, form)) == [None if each is None else format_time(each, form) for each in instants]


@st.composite
def texts(draw: st.DrawFn, form: str) -> str | None:
    """What says an instant, mostly; or that with a character changed, added or taken away."""
    if draw(st.integers(0, 9)) == 0:
        return None
    text = format_time(draw(INSTANTS), form)
    place = draw(st.integers(0, len(text)))
    other = draw(st.sampled_from(("", "0", "1", "9", "x", " ", "-")))
    return draw(st.sampled_from((text, text, text[:place] + other + text[place + 1 :], text[:place] + other + text[place:])))


@given(st.data(), formats(readable=True))
def test_texts_are_read_as_the_reference_does(data: st.DataObject, form: str) -> None:
    given_ = data.draw(st.lists(texts(form), max_size=20))
    made, fits = parsed(from_arrow(pa.array(given_, pa.string()), STRING), form, TIMESTAMP_US)
    expected = [None if text is None else parse_time(text, form) for text in given_]
    assert fits.tolist() == [text is None or said is not None for text, said in zip(given_, expected, strict=True)]
    assert [value for value, text, said in zip(made.values.tolist(), given_, expected, strict=True) if said is not None] == [
        said for said in expected if said is not None
    ]


def test_a_day_that_the_year_has_not() -> None:
    given_ = ["1999366", "2000366", "2000367", "1999000", "19990601", "999001"]
    _, fits = parsed(from_arrow(pa.array(given_), STRING), "%Y%j", TIMESTAMP_US)
    assert fits.tolist() == [0, 1, 0, 0, 0, 0]


def test_a_fraction_has_one_to_six_digits_as_behind_a_point() -> None:
    column, fits = parsed(from_arrow(pa.array(["1.5", "1.000001", "1.", "1.0000000"]), STRING), "1.%f", TIMESTAMP_US)
    assert fits.tolist() == [1, 1, 0, 0] and column.values[:2].tolist() == [500_000, 1]
