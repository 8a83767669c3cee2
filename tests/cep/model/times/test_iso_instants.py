"""Instants of text, one at a time, against the kernels that read whole columns; and instants of all years, out and in again."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cep.errors import QueryError
from cep.kernels.literals import calendar
from cep.model.expr import lit
from cep.model.times.iso_instants import instant_text, read_instant
from cep.model.types import literal_value

GOOD = {
    "2020-01-01": 1_577_836_800_000_000,
    "2020-01-01 09:30+09:00": 1_577_838_600_000_000,
    "2020-01-01T00:00:00.123456000Z": 1_577_836_800_123_456,
    "2020-01-01t00:00:00z": 1_577_836_800_000_000,
    "1969-12-31T23:59:59.5-0000": -500_000,
    "0001-01-01": -62_135_596_800_000_000,
    "9999-12-31T23:59:59.999999-23:59": 253_402_387_139_999_999,
}
#: Python's `fromisoformat` reads the first eleven, some of them as other instants than they say.
BAD = [
    *("2020-W01", "2020-W01-1", "20200101", "2020-01-01T00", "2020-01-01T0000", "2020-01-01T00:00+09", "2020-01-01+09:00"),
    *("2020-01-01T00:00:00.1234567", "2020-01-01T00:00+00:60", "2020-01-01T00:00:00,5", "2020-01-01T00:00 Z"),
    *("2020-001", "2023-02-29", "1900-02-29", "2020-01-01T24:00", "2020-01-01T00:00:60", "2020-01-01T00:00+24:00", "2020-01-01+99:00"),
    *("0000-01-01", "2020-1-1", "2020-01-01T", "2020-01-01T00:00:00.", "2020-01-01T00:00:00.0000000000", " 2020-01-01", "2020-01-01\n", ""),
    *("٢٠٢٠-01-01", "2020-01-01T00:00\u221209:00", "1577836800000", "now"),
]
REFUSED = r"^literal .*: (expected an instant in ISO 8601|timestamps are stored in whole µs|there is no zone)"


def of_a_column(text: str) -> int | None:
    """What a cast, a file or a table has of it. None: it is none."""
    data = text.encode()
    value, error = calendar(np.frombuffer(data + bytes(32), np.uint8), 0, len(data))
    return None if error else int(value)


def of_one(text: str) -> int | None:
    try:
        return int(read_instant(text))
    except ValueError:
        return None


@pytest.mark.parametrize("text", [*GOOD, *BAD])
def test_a_text_is_read_alike_in_a_literal_a_column_and_a_row_of_rest(text: str) -> None:
    assert of_a_column(text) == GOOD.get(text) == of_one(text)
    if text in GOOD:
        assert literal_value(lit(text, "timestamp[s]")) == GOOD[text] == read_instant(text, signed_years=True)
        return
    with pytest.raises(QueryError, match=REFUSED):
        literal_value(lit(text, "timestamp"))
    with pytest.raises(ValueError):
        read_instant(text, signed_years=True)


def test_texts_that_are_nearly_instants_are_read_as_in_a_column() -> None:
    choose, read = random.Random(47), 0
    for _ in range(20_000):
        text = list(choose.choice([*GOOD, *GOOD, *GOOD, *BAD[:20]]))
        for _ in range(choose.randint(0, 2)):
            at = choose.randint(0, len(text))
            text[at : at + choose.randint(0, 1)] = choose.choice(["", *"0123569-+:.,TtZz "])
        written = "".join(text)
        found = of_one(written)
        assert found == of_a_column(written), written
        read += found is not None
    assert 2_000 < read < 18_000  # there are many of both


def test_instants_of_all_years() -> None:
    drawn = random.Random(7)
    for microseconds in (drawn.randrange(-(2**63), 2**63) for _ in range(500)):
        assert read_instant(instant_text(microseconds), signed_years=True) == microseconds


def test_years_with_a_sign_are_read_where_they_are_asked_for() -> None:
    """Columns have them not (`cep.kernels.literals`), so literals have them neither."""
    assert read_instant("+002020-01-01", signed_years=True) == GOOD["2020-01-01"]
    assert of_a_column("+002020-01-01") is None
    with pytest.raises(ValueError, match="expected an instant in ISO 8601"):
        read_instant("+002020-01-01")
    with pytest.raises(ValueError, match="too far from 1970"):
        read_instant("+300000-01-01", signed_years=True)
