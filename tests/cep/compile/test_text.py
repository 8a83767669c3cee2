"""Text records against a slow, obvious reference: split the line, let Python read the values.

Tests `text.py`, `cep/kernels/literals.py`, `cep/kernels/text.py`.
"""

from __future__ import annotations

import contextlib
import math
import re
import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cep.compile.text import BAD_MAX, Parsed, TextParser
from cep.errors import QueryError
from cep.kernels import jit
from cep.kernels.column import Column
from cep.kernels.columns import to_arrow
from cep.kernels.tables.keys import decode_keys, encode_keys
from cep.kernels.text import READABLE, gather
from cep.model.schema import UNIT_US, Field, Schema

SCHEMA = Schema.of(
    {
        "ts": "timestamp[ms]",
        "name": "string",
        "small": "int32",
        "big": "int64?",
        "real": "float64?",
        "flag": "bool?",
        "raw": "binary",
        "at": "timestamp?",
        "s": "timestamp[s]?",
        "ns": "timestamp[ns]?",
        "last": "string",
    }
)
INT64 = range(-(2**63), 2**63)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Wrong(Exception):
    """The reference refuses a value."""


# --- the reference ----------------------------------------------------------------------------------------------------


def read(field: Field, text: bytes) -> object:
    """What `text` means in `field`. Timestamps are µs."""
    if field.type.is_text:
        return read_text(field, text)
    if not text:
        if not field.nullable:
            raise Wrong
        return None
    return READERS[field.type.name](field, text)


def read_text(field: Field, text: bytes) -> object:
    try:
        return text.decode() if field.type.name == "string" else text
    except UnicodeDecodeError:
        raise Wrong from None


def read_integer(field: Field, text: bytes) -> int:
    if not re.fullmatch(rb"[+-]?[0-9]+", text):
        raise Wrong
    value = int(text)
    if value not in (range(-(2**31), 2**31) if field.type.name == "int32" else INT64):
        raise Wrong
    return value


def read_real(field: Field, text: bytes) -> float:
    if b"_" in text or text != text.strip():
        raise Wrong
    try:
        return float(text.decode("ascii"))
    except ValueError:
        raise Wrong from None


def read_boolean(field: Field, text: bytes) -> bool:
    if text.lower() not in (b"true", b"false", b"1", b"0"):
        raise Wrong
    return text.lower() in (b"true", b"1")


CALENDAR = re.compile(rb"(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:([Zz])|([+-])(\d\d):?(\d\d))?)?")


def read_timestamp(field: Field, text: bytes) -> int:
    if not field.type.unit:
        return read_calendar(text)
    value = read_integer(field, text)
    if field.type.unit == "ns":
        if value % 1000:
            raise Wrong
        return value // 1000
    value *= UNIT_US[field.type.unit]
    if abs(value) >= 2**63:
        raise Wrong
    return value


def read_calendar(text: bytes) -> int:
    match = CALENDAR.fullmatch(text)
    if not match:
        raise Wrong
    nanoseconds = int((match[7] or b"0").ljust(9, b"0"))
    zone = timedelta(hours=int(match[10] or 0), minutes=int(match[11] or 0)) * (-1 if match[9] == b"-" else 1)
    if nanoseconds % 1000 or int(match[10] or 0) > 23 or int(match[11] or 0) > 59:
        raise Wrong
    try:
        moment = datetime(*(int(match[k] or 0) for k in range(1, 7)), nanoseconds // 1000, UTC)  # type: ignore[arg-type]
    except ValueError:
        raise Wrong from None
    return (moment - EPOCH) // timedelta(microseconds=1) - zone // timedelta(microseconds=1)


READERS = {
    "int32": read_integer,
    "int64": read_integer,
    "float64": read_real,
    "bool": read_boolean,
    "timestamp": read_timestamp,
}


def reference(data: bytes, names: tuple[str, ...]) -> tuple[list[int], dict[str, list[object]], list[int]]:
    """(numbers of the good records, their values by field, numbers of the bad records)"""
    good: list[int] = []
    bad: list[int] = []
    values: dict[str, list[object]] = {name: [] for name in names}
    for number, line in enumerate(data.split(b"\n")[:-1]):
        fields = line.removesuffix(b"\r").split(b",")
        try:
            if any(SCHEMA.names.index(name) >= len(fields) for name in names):
                raise Wrong
            row = {name: read(expected(name), fields[SCHEMA.names.index(name)]) for name in names}
        except Wrong:
            bad.append(number)
            continue
        good.append(number)
        for name in names:
            values[name].append(row[name])
    return good, values, bad


def expected(name: str) -> Field:
    return SCHEMA[name]


# --- what the engine says ---------------------------------------------------------------------------------------------


def parse_all(parser: TextParser, data: bytes, rows_max: int = 1000, room: int = READABLE) -> list[Parsed]:
    """All of `data`, in as many calls as it takes."""
    array = np.frombuffer(data + b"#" * room, np.uint8)
    results, at = [], 0
    while at < len(data):
        results.append(parser.parse(array, at, len(data), rows_max))
        assert results[-1].consumed > at
        at = results[-1].consumed
    return results


def seen(results: list[Parsed], names: tuple[str, ...]) -> tuple[list[int], dict[str, list[object]], list[int]]:
    good, bad, before = [], [], 0
    values: dict[str, list[object]] = {name: [] for name in names}
    for parsed in results:
        good += [before + number for number in parsed.records.tolist()]
        bad += [before + each.record for each in parsed.bad]
        for name in names:
            array = to_arrow(parsed.columns[name])
            values[name] += (array.cast("int64") if SCHEMA[name].type.name == "timestamp" else array).to_pylist()
        before += parsed.count
    return good, values, bad


def bits(values: dict[str, list[object]]) -> dict[str, list[object]]:
    """Floats by their bits, but for the payload of a NaN."""
    return {name: [_bits(value) for value in column] for name, column in values.items()}


def _bits(value: object) -> object:
    if not isinstance(value, float):
        return value
    return ("nan", math.copysign(1, value)) if math.isnan(value) else struct.pack("<d", value)


INTEGERS = st.one_of(
    st.integers(-(2**66), 2**66).map(str),
    st.integers(-(10**9), 10**9).map(str),
    st.sampled_from([str(2**63), str(-(2**63)), str(2**63 - 1), str(-(2**63) - 1), str(2**31), str(-(2**31)), "+7", "-", "+"]),
    st.from_regex(r"[+-]?[0-9]{1,25}", fullmatch=True),
)
REALS = st.one_of(
    st.floats().map(repr),
    st.floats().map(lambda x: f"{x:.17e}"),
    st.from_regex(r"[+-]?[0-9]{0,25}\.?[0-9]{0,25}([eE][+-]?[0-9]{0,4})?", fullmatch=True),
    st.sampled_from(
        ["inf", "-Infinity", "NaN", "+nan", "nAn", "1e400", "-1e400", "5e-324", "2.4703282292062327e-324", "2.4703282292062328e-324"]
    ),
    st.sampled_from(
        [
            "9007199254740993",
            "9007199254740992e22",
            "1e23",
            ".5",
            "5.",
            ".",
            "1.e3",
            "infinit",
            "0e999",
            "-0",
            "-0.0",
            "1_0",
            "0x1p3",
            "1e99999999999999999999",
            "-1e-99999999999999999999",
        ]
    ),
)
CALENDARS = st.one_of(
    st.datetimes().map(lambda d: d.isoformat()),
    st.datetimes(timezones=st.just(UTC)).map(lambda d: d.isoformat(" ")),
    st.from_regex(CALENDAR.pattern.decode(), fullmatch=True).filter(str.isascii),
    st.sampled_from(["2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "2024-13-01", "2024-01-01T24:00", "1700000000"]),
)
TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters=",\n\r"), max_size=20).map(lambda s: s.encode()),
    st.binary(max_size=12).map(lambda b: re.sub(rb"[,\n\r]", b"\xe2\x82", b)),
    st.sampled_from([b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xe0\x9f\xbf", b"\xf0\x8f\xbf\xbf", b"\xf4\x8f\xbf\xbf"]),
)
BOOLEANS = st.sampled_from(["true", "False", "TRUE", "1", "0", "2", "t", "tru", "truee"])


def ascii_of(strategy: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    return strategy.map(lambda text: text.encode())


VALUES = {
    "ts": ascii_of(INTEGERS),
    "name": TEXTS,
    "small": ascii_of(INTEGERS),
    "big": ascii_of(INTEGERS),
    "real": ascii_of(REALS),
    "flag": ascii_of(BOOLEANS),
    "raw": TEXTS,
    "at": ascii_of(CALENDARS),
    "s": ascii_of(INTEGERS),
    "ns": ascii_of(INTEGERS.map(lambda text: text + "000")),
    "last": TEXTS,
}
GOOD = {
    "ts": b"1700000000000",
    "name": b"10.0.0.1",
    "small": b"5",
    "big": b"-6",
    "real": b"0.25",
    "flag": b"true",
    "raw": b"x",
    "at": b"2024-01-02T03:04:05Z",
    "s": b"7",
    "ns": b"8000",
    "last": b"end",
}


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A record, mostly good, so that what one field does is seen through the others."""
    wild = draw(st.sets(st.sampled_from(SCHEMA.names), max_size=3))
    fields = [draw(st.one_of(VALUES[name], st.just(b""))) if name in wild else GOOD[name] for name in SCHEMA.names]
    kept = draw(st.one_of(st.just(len(fields)), st.integers(1, len(fields))))
    return b",".join(fields[:kept]) + draw(st.sampled_from([b"\n", b"\r\n"]))


DATA = st.lists(lines(), min_size=1, max_size=8).map(b"".join)
NEEDED = st.sampled_from([SCHEMA.names, ("ts", "raw", "at"), ("last",), ()])  # each is a kernel to compile


def texts_in(parsed: Parsed) -> list[tuple[Field, Column]]:
    return [(Field("text", column.type), column) for column in parsed.columns.values() if column.type.is_text]


def want_words(parser: TextParser) -> None:
    """As an operator that groups by its texts does."""
    for field, column in texts_in(parser.parse(np.frombuffer(b"\n" + bytes(READABLE), np.uint8), 0, 1, 1)):
        encode_keys({"text": column}, (field,))


def assert_words(results: list[Parsed], made: bool) -> None:
    """Keys of texts whose words were made while they were parsed are those of the texts, of a part of them too."""
    for field, column in [each for parsed in results for each in texts_in(parsed)]:
        assert column.words is not None and (column.words.low is not None) == made
        for texts in (column, column.take(slice(1, None)), column.take(np.arange(len(column))[::-1]), column):
            keys, plain = (encode_keys({"text": each}, (field,)) for each in (texts, replace(texts, words=None)))
            assert keys.w0.tolist() == plain.w0.tolist()
            assert keys.w1.tolist() == plain.w1.tolist()
            assert to_arrow(decode_keys(keys, (field,))["text"]) == to_arrow(texts)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(DATA, NEEDED, st.integers(1, 5), st.sampled_from([0, 16, 63, 64, 127, 128, 200]), st.booleans())
def test_parse_is_split_and_python(data: bytes, names: tuple[str, ...], rows_max: int, room: int, words: bool) -> None:
    parser = TextParser.make(SCHEMA, names)
    if words:
        want_words(parser)
    results = parse_all(parser, data, rows_max, room)
    got = seen(results, names)
    good, values, bad = reference(data, names)
    assert got[0] == good
    assert got[2] == bad
    assert bits(got[1]) == bits(values)
    assert_words(results, words)


#: Where the rules change, each value a record of one field.
EDGES = {
    "int64": "0 -0 +0 00012 -9223372036854775808 -9223372036854775809 9223372036854775807 9223372036854775808 18446744073709551616"
    " 99999999 123456789 1234567812345678 12345678123456789 -12345678 1234567a 1234567812345:78 /2345678 + - +- --1 1.0 a",
    "int32": "-2147483648 -2147483649 2147483647 2147483648 99999999999999999999",
    "float64": "9007199254740992 9007199254740993 9007199254740993e5 9007199254740992e22 9007199254740992e23 1e22 1e23 1e-22 1e-23"
    " 5e-324 2e-324 3e-324 1.7976931348623157e308 1.7976931348623159e308 1e400 -1e400 0e999 -0 -0.0 +.5e+0 5. .5 . e5 1e 1e+ 1e5.0 1e5e5"
    " inf -Infinity +iNf NaN -nan infinit infinityy 1_0 0x1p3 1e99999999999999999999 -1e-99999999999999999999"
    " 10698021406742829e16 9045139995783513e-15",
    "bool": "true FALSE True 1 0 2 t tru truee ! /",
    "timestamp[s]": "9223372036854 9223372036855 -9223372036854 -9223372036855 99999999999999999999",
    "timestamp[us]": "9223372036854775807 -9223372036854775807 -9223372036854775808",
    "timestamp[ns]": "1000 1001 -1000 -1",
    "timestamp": "1970-01-01 0001-01-01 9999-12-31 2024-02-29 2023-02-29 1900-02-29 2000-02-29 2024-04-31 2024-00-01 2024-13-01 2024-01-00"
    " 0000-01-01 2024-01-01T23:59 2024-01-01T24:00 2024-01-01t23:59:59.999999 2024-01-01T00:00:60 2024-01-01T00:00:00.123456000"
    " 2024-01-01T00:00:00.123456001 2024-01-01T00:00:00. 2024-01-01T00:00:00.1234567890 2024-01-01T00:00Z 2024-01-01T00:00:01+23:59"
    " 2024-01-01T00:00-0100 2024-01-01T00:00+24:00 2024-01-01T00:00+1 2024-01-01T 2024-1-1 1700000000 2024-01-01Z 1969-12-31T23:59:59.9",
}


@pytest.mark.parametrize("kind", EDGES)
@pytest.mark.parametrize("rows_max", [1, 1000])
def test_edges(kind: str, rows_max: int) -> None:
    schema = Schema.of({"x": kind})
    texts = EDGES[kind].encode().split()
    wanted = []
    for text in texts:
        with contextlib.suppress(Wrong):
            wanted.append(read(schema["x"], text))
    results = parse_all(TextParser.make(schema, ("x",)), b"\n".join(texts) + b"\n", rows_max)
    got = [value for parsed in results for value in parsed.columns["x"].values.tolist()]
    assert [_bits(value) for value in got] == [_bits(value) for value in wanted]


@pytest.mark.parametrize("before", [0, 7, 63])
def test_utf8_edges(before: int) -> None:
    """First and last code point of each length, what lies between them, and what is cut off."""
    schema = Schema.of({"x": str})
    points = [0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x40000, 0x10FFFF]
    good = [chr(point).encode() for point in points]
    bad = "80 bf c0af c1bf c2 c27f c2c0 e0 e080 e09fbf e0a07f ed9f eda080 edbfbf f08fbfbf f09080 f0908041 f48fbfc0 f4908080 f5808080 ff"
    texts = [b"a" * before + text + end for text in good + [bytes.fromhex(text) for text in bad.split()] for end in (b"", b"zz")]
    wanted = []
    for text in texts:
        with contextlib.suppress(Wrong):
            wanted.append(read(schema["x"], text))
    parsed = parse_all(TextParser.make(schema, ("x",)), b"\n".join(texts) + b"\n")[0]
    assert to_arrow(parsed.columns["x"]).to_pylist() == wanted
    assert len(wanted) == 2 * len(good)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_line_ends(end: bytes) -> None:
    schema = Schema.of({"a": str, "b": str})
    lines = [b"x,", b",", b",y", b"x,y", b"x,y\r", b"\r,\r", b"x\r,y", b"x", b"", b"x,y,z"]
    parsed = parse_all(TextParser.make(schema, ("a", "b")), end.join([*lines, b""]))[0]
    kept = [line.removesuffix(b"\r") if end == b"\n" else line for line in lines]
    assert to_arrow(parsed.columns["a"]).to_pylist() == [line.split(b",")[0].decode() for line in kept if b"," in line]
    assert to_arrow(parsed.columns["b"]).to_pylist() == [line.split(b",")[1].decode() for line in kept if b"," in line]
    assert [bad.length for bad in parsed.bad] == [1, 0]


@given(st.one_of(REALS, st.integers(0, 2**64 - 1).map(lambda b: repr(struct.unpack("<d", struct.pack("<Q", b))[0]))))
@example("1" + "0" * 400)
@example("-1." + "3" * 400)
def test_real_is_float(text: str) -> None:
    schema = Schema.of({"x": float})
    parsed = parse_all(TextParser.make(schema, ("x",)), text.encode() + b"\n")[0]
    try:
        wanted = [read_real(schema["x"], text.encode())]
    except Wrong:
        wanted = []
    assert [_bits(x) for x in parsed.columns["x"].values.tolist()] == [_bits(x) for x in wanted]


#: Lines of all lengths around a block, and few that are not plain, so that plain ones are taken before, between and behind them.
LINES = st.one_of(
    st.integers(0, 200).map(lambda length: bytes(97 + i % 26 for i in range(length))),
    st.lists(st.integers(0, 3), min_size=20, max_size=100).map(lambda lengths: b"\n".join(b"x" * length for length in lengths)),
    st.sampled_from([b"a,b", b",", b"x" * 62 + b",", b"\xe2\x82\xac", b"\xff", b"\r", b"a\rb", b"y" * 63 + b"\r", b"\0"]),
)


def texts_of(parsed: Parsed) -> list[object]:
    texts: list[object] = to_arrow(parsed.columns["line"]).to_pylist()
    return texts


@given(
    st.lists(LINES, min_size=1, max_size=40),
    st.sampled_from(["string", "binary"]),
    st.sampled_from([1, 3, 70, 10_000]),
    st.sampled_from([0, 64, 500]),
    st.integers(0, 70),
    st.booleans(),
)
def test_lines_of_one_field(lines: list[bytes], kind: str, rows_max: int, room: int, before: int, words: bool) -> None:
    data = b"z" * before + b"\n".join([*lines, b""])
    parser = TextParser.make(Schema.of({"line": kind}), ("line",))
    if words:
        want_words(parser)
    results = parse_all(parser, data, rows_max, room)
    assert_words(results, words)
    field = Schema.of({"line": kind})["line"]
    good: list[tuple[int, object]] = []
    bad = []
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n")):
        try:
            good.append((number, read(field, line.removesuffix(b"\r").split(b",")[0])))
        except Wrong:
            bad.append(number)
    firsts = np.cumsum([0, *(parsed.count for parsed in results)]).tolist()
    pairs = list(zip(firsts, results, strict=False))
    assert [
        (first + int(n), v) for first, p in pairs for n, v in zip(p.records, to_arrow(p.columns["line"]).to_pylist(), strict=True)
    ] == good
    assert [first + each.record for first, parsed in pairs for each in parsed.bad] == bad
    at = 0
    for parsed in results:
        taken, at = data[at : parsed.consumed], parsed.consumed
        whole = parsed.bad_count == 0 and b"," not in taken and b"\r" not in taken
        assert parsed.columns["line"].lines == (ord(",") if whole else None)
        assert parsed.columns["line"].body_bytes == sum(parsed.columns["line"].values.tolist())


def test_interpreted_source_agrees() -> None:
    data = b"".join(b",".join(GOOD[name] for name in SCHEMA.names) + end for end in (b"\n", b"\r\n", b",more\n"))
    data += b"1,\xff,1\n,,\n" + b"5,a,1,,1e-400,,,,,,\xe2\x82\xac\r\n"
    parser = TextParser.make(SCHEMA, SCHEMA.names, event_time="ts")
    want_words(parser)
    compiled = seen(parse_all(parser, data), SCHEMA.names)
    with jit.interpreted():
        results = parse_all(parser, data)
        assert seen(results, SCHEMA.names) == compiled
        assert_words(results, True)
    assert compiled[0] == [0, 1, 2, 5]


# --- bad records ------------------------------------------------------------------------------------------------------


def test_bad_records_say_where_and_why() -> None:
    data = b"1,a,5\r\nx,a,5\n1\n\n1,\xff\xfe,5\r\n1,a,99999999999\n1,a,\n"
    parsed = parse_all(TextParser.make(SCHEMA, ("ts", "name", "small")), data)[0]
    assert [(bad.record, data[bad.offset : bad.offset + bad.length], bad.reason) for bad in parsed.bad] == [
        (1, b"x,a,5", "field 'ts': expected timestamp[ms], got 'x'"),
        (2, b"1", "expected at least 3 fields separated by ',', got 1"),
        (3, b"", "expected at least 3 fields separated by ',', got 1"),
        (4, b"1,\xff\xfe,5", "field 'name': expected string, got bytes that are not UTF-8: b'\\xff\\xfe'"),
        (5, b"1,a,99999999999", "field 'small': expected int32, got '99999999999', which is out of its range"),
        (6, b"1,a,", "field 'small': expected int32, got NULL"),
    ]
    assert (len(parsed), parsed.bad_count, parsed.count, parsed.consumed) == (1, 6, 7, len(data))


def test_only_the_last_bad_records_are_described() -> None:
    data = b"x\n" * (BAD_MAX + 7)
    parsed = parse_all(TextParser.make(Schema.of({"n": int}), ("n",)), data)[0]
    assert parsed.bad_count == BAD_MAX + 7
    assert [bad.record for bad in parsed.bad] == list(range(7, BAD_MAX + 7))


def test_null_event_time_is_bad() -> None:
    schema = Schema.of({"ts": "timestamp[ms]?", "n": "int64?"})
    data = b"1,\n,2\n3,3\n"
    timed = parse_all(TextParser.make(schema, ("n",), event_time="ts"), data)[0]
    assert timed.columns["ts"].values.tolist() == [1000, 3000]
    assert [bad.reason for bad in timed.bad] == ["field 'ts': expected timestamp[ms], got NULL"]
    assert parse_all(TextParser.make(schema, ("ts",)), data)[0].bad_count == 0


def test_bad_records_move_the_stamp() -> None:
    schema = Schema.of({"n": int, "ts": "timestamp[us]"})
    data = b"1,10\nx,40\nx,30\nx,bad\n2,20\nx,50\n"
    parsed = parse_all(TextParser.make(schema, ("n",), event_time="ts"), data)[0]
    assert (parsed.bad_rows.tolist(), parsed.bad_times.tolist()) == ([1, 2], [40, 50])


def test_first_time_is_of_the_first_record_whose_time_parses() -> None:
    schema = Schema.of({"n": int, "ts": "timestamp[us]"})
    data = np.frombuffer(b"1,x\nx,7\n2,8\n", np.uint8)
    parser = TextParser.make(schema, ("n",), event_time="ts")
    assert parser.first_time(data, 0, len(data)) == 7
    assert parser.first_time(data, 0, 4) is None
    assert parser.first_time(data, 8, len(data)) == 8


@pytest.mark.parametrize("first", [0, 1, 2, 500, 998, 999])
def test_first_time_is_found_among_many_bad_records(first: int) -> None:
    """Of bad records that follow each other a parser tells the greatest time only."""
    schema = Schema.of({"n": int, "ts": "timestamp[us]"})
    lines = ["1,x\n" if i < first else f"x,{i}\n" for i in range(1000)]
    data = np.frombuffer("".join([*lines, "1,5\n"]).encode(), np.uint8)
    assert TextParser.make(schema, ("n",), event_time="ts").first_time(data, 0, len(data)) == first


def test_a_line_that_is_not_ended_is_refused() -> None:
    with pytest.raises(ValueError, match="expected whole lines"):
        TextParser.make(SCHEMA, ("ts",)).parse(np.frombuffer(b"1\n2", np.uint8), 0, 3, 10)


@pytest.mark.parametrize("separator", ["", ",,", "\n", "\r", "§"])
def test_a_separator_is_one_byte(separator: str) -> None:
    with pytest.raises(QueryError, match="expected one ASCII character"):
        TextParser.make(SCHEMA, ("ts",), separator)


def test_event_time_is_a_timestamp() -> None:
    with pytest.raises(QueryError, match="event time 'small'"):
        TextParser.make(SCHEMA, ("ts",), event_time="small")


def test_a_line_longer_than_all_else() -> None:
    data = b"1\n" + b"2," + b"x" * 200_000 + b"\n" + b"3," + b"y" * 100 + b"\n"
    for room in (0, 64):
        parsed = parse_all(TextParser.make(SCHEMA, ("ts",)), data, room=room)
        assert [t for p in parsed for t in p.columns["ts"].values.tolist()] == [1000, 2000, 3000]


def test_other_separators() -> None:
    parsed = parse_all(TextParser.make(SCHEMA, ("ts", "name"), "\t"), b"1\ta,b\n")[0]
    assert to_arrow(parsed.columns["name"]).to_pylist() == ["a,b"]


# --- gather -----------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20)))
def test_gather_is_join(texts: list[bytes]) -> None:
    data = np.frombuffer(b"-".join(texts) + b"-", np.uint8)
    lengths = np.array([len(text) for text in texts], np.int64)
    starts = np.cumsum(lengths + 1) - lengths - 1
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    body = np.empty(int(offsets[-1]), np.uint8)
    gather(data, starts, offsets, body)
    assert body.tobytes() == b"".join(texts)
