"""Files of lines: what becomes of a record depends neither on the blocks in which a file is read nor on where reading began, and what makes
no sense takes nothing along that is behind it.

Tests `connectors/formats/files.py`, `csv_values.py`, `raw_values.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.contract import ConnectorError, Polled, ValueFormat
from connectors.formats import files
from connectors.formats.csv_values import CsvFormat
from connectors.formats.files import GIVEN_UP, opened
from connectors.formats.json_values import JsonFormat
from connectors.formats.raw_values import RawFormat

TWO = pa.schema([("a", pa.string()), ("b", pa.string())])
ONE = TWO.remove(1)


def polled(format_: ValueFormat, content: bytes, place: tuple[int, int] = (0, 1), many: int = 3) -> Iterator[Polled]:
    reading = opened(format_, BytesIO(content), "f", *place)
    while (found := reading.take(many)) is not None:
        yield found


def records(format_: ValueFormat, content: bytes, place: tuple[int, int] = (0, 1)) -> list[tuple[str, bytes, bool]]:
    """What each is called, the record, and whether it is said to be none."""
    return [
        (each.called(at), value, each.wrong is not None)
        for each in polled(format_, content, place)
        if each.called is not None
        for at, value in enumerate(each.values)
    ]


def rows(format_: ValueFormat, content: bytes, schema: pa.Schema) -> list[tuple[object, ...] | str]:
    """The values of each, or why there are none."""
    found: list[tuple[object, ...] | str] = []
    for each in polled(format_, content):
        if each.wrong is not None:
            found.append(each.wrong)
            continue
        decoded = (each.format or format_).decode(each.values, schema)
        read = {first + at: tuple(row.values()) for first, run in decoded.runs for at, row in enumerate(run.to_pylist())}
        found += [(read | dict(decoded.bad))[at] for at in range(len(each.values))]
    return found


@given(st.text('a,"\r\n', max_size=40).map(str.encode), st.sampled_from([CsvFormat(), JsonFormat(), RawFormat()]), st.integers(1, 12))
def test_a_record_is_the_same_in_whatever_blocks_and_from_wherever_it_is_read(content: bytes, format_: ValueFormat, block: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files, "VALUE_BYTES_MAX", 10)
        patched.setattr(files, "SHOWN_BYTES", 3)
        expected = records(format_, content)
        patched.setattr(files, "BLOCK_BYTES", block)
        assert records(format_, content) == expected
        places = [tuple(each.place) for each in polled(format_, content, many=1)]
        assert [records(format_, content, place) for place in places] == [expected[at:] for at in range(1, len(expected) + 1)]


@given(st.lists(st.tuples(st.text('a \t,"\r\n', max_size=3), st.text('a \t"', max_size=3))), st.sampled_from("\t ,"))
def test_csv_that_was_written_to_a_file_is_read(written: list[tuple[str, str]], separator: str) -> None:
    format_ = CsvFormat(separator=separator, header=True)
    batch = pa.RecordBatch.from_arrays([[a for a, _ in written], [b for _, b in written]], schema=TWO)
    assert rows(format_, format_.file_of(batch), TWO) == written


@given(st.lists(st.text("a \r\n", max_size=3)))
def test_raw_that_was_written_to_a_file_is_read_or_it_is_refused(texts: list[str]) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], schema=ONE)
    if any("\n" in text or text.endswith("\r") for text in texts):
        with pytest.raises(ConnectorError, match="format raw: a value is a line here, and "):
            RawFormat().file_of(batch)
    else:
        assert rows(RawFormat(), RawFormat().file_of(batch), ONE) == [(text,) for text in texts]


def test_a_quote_that_nothing_closes_takes_no_rows_along() -> None:
    content = b'1,x\n2,a 5" disk\n3,y\n4,"z\n5,y\n6,u\n'
    assert rows(CsvFormat(), content, TWO) == [
        ("1", "x"),
        ("2", 'a 5" disk'),
        ("3", "y"),
        "a quote is open at its end",
        ("5", "y"),
        ("6", "u"),
    ]


class Counting(CsvFormat):
    """How many bytes are looked at."""

    def is_open(self, line: bytes, before: bool) -> bool:
        LOOKED.append(len(line))
        return super().is_open(line, before)


LOOKED: list[int] = []


@pytest.mark.parametrize("stray", [b'1,"open\n', b'1,2" disk\n'])
def test_a_line_is_looked_at_a_few_times(stray: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a quote stays open."""
    monkeypatch.setattr(files, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(files, "VALUE_BYTES_MAX", 1 << 16)
    LOOKED.clear()
    content = stray + b"1,some text of a usual record\n" * 5_000
    assert sum(len(each) for each in polled(Counting(), content, many=1000)) == 5_001
    assert sum(LOOKED) < 3 * len(content)


def test_a_line_that_is_too_long_is_one_bad_record() -> None:
    """Also the last one, and one before whose beginning a quote is open."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files, "VALUE_BYTES_MAX", 100)
        patched.setattr(files, "BLOCK_BYTES", 64)
        long = b"a," + b"b" * 300
        found = rows(CsvFormat(), b"1,2\n" + long + b"\n3,4\n\n" + b'5,"6\n7,8\n' + long + b"\n9,0\n" + long, TWO)
    too_long = "expected a value of at most 16,777,216 bytes, got a longer one"
    assert found == [("1", "2"), too_long, ("3", "4"), "a quote is open at its end", ("7", "8"), too_long, ("9", "0"), too_long]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("naïve,b\n1,2\n".encode("latin-1"), "can't decode byte 0xef"),
        ("a,b\n1,2\n".encode("utf-16"), "can't decode byte 0xff"),
        (b'a,"b\n1,2\n', "a quote is open at its end"),
        (b"\na,b\n1,2\n", "it is empty"),
        (b"a," + b"b" * 200 + b"\n1,2\n", "expected a value of at most"),
    ],
)
def test_a_first_line_that_names_no_columns_is_one_bad_record(content: bytes, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing behind it, for whose values would those be?"""
    monkeypatch.setattr(files, "VALUE_BYTES_MAX", 100)
    (found,) = polled(CsvFormat(header=True), content)
    assert found.wrong is not None and found.wrong.startswith("the file cannot be read: its first line: ") and said in found.wrong
    assert found.place == [GIVEN_UP, 1] and list(polled(CsvFormat(header=True), content, (GIVEN_UP, 1))) == []


def test_a_first_line_names_columns_as_others_have_values() -> None:
    header = CsvFormat(header=True)
    assert rows(header, b'\xef\xbb\xbf"a",b\r\n1,2\r\n', TWO) == [("1", "2")]
    assert rows(header, b'"b",' + b"c" * 200_000 + b',"a\nx",\n1,2,3,4\n', TWO) == [(None, "1")]
    assert rows(header, b"c,a,c\n1,2,3\n", TWO) == [("2", None)]
    assert rows(header, b"a,a\n1,2\n3,4\n", TWO) == ["column 'a' stands twice in the file's first line"] * 2
    assert rows(header, b"", TWO) == []
