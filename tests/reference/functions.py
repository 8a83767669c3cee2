"""Functions of expressions, of values none of which is NULL, by what Python itself offers: docs/arithmetic.md."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any

from cep.model.schema import DataType
from tests.cep.kernels.tables.test_hashing import specified_bytes, specified_key
from tests.reference.values import NAN, is_nan

BLANKS = " \t\n\r\v\f"
DURATIONS_US = {"us": 1, "ms": 1000, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}

# --- numbers ---------------------------------------------------------------------------------------------------------


def ieee(function: Callable[..., float]) -> Callable[..., float]:
    """Python's function of floats, with NaN outside of its domain and infinities beyond the range."""

    def call(*args: float) -> float:
        floats = [float(arg) for arg in args]
        try:
            return function(*floats)
        except ValueError:
            return NAN
        except OverflowError:
            return math.inf

    return call


def logarithm(function: Callable[[float], float]) -> Callable[[float], float]:
    return ieee(lambda x: -math.inf if x == 0 else function(x))


def power(x: float, y: float) -> float:
    """C's: Python raises where a zero has a negative exponent, and where a negative number overflows."""
    odd = math.isfinite(y) and y % 2 == 1
    if x == 0 and y < 0 and not is_nan(y):
        return math.copysign(math.inf, x) if odd else math.inf
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and odd else math.inf


def rounded(function: Callable[[float], int]) -> Callable[[Any], Any]:
    """Integers stay what they are; a float keeps its sign, also where it becomes zero."""

    def call(value: Any) -> Any:
        if isinstance(value, int) or not math.isfinite(value):
            return value
        return math.copysign(float(function(value)), value)

    return call


def round_(value: Any, digits: int = 0) -> Any:
    if isinstance(value, int) or not abs(value) < 2.0**52:
        return value
    scale = 10.0**digits
    return math.copysign(float(round(value * scale)), value) / scale


def sign(value: Any) -> Any:
    if value == 0 or is_nan(value):
        return value
    return type(value)(1 if value > 0 else -1)


# --- text ------------------------------------------------------------------------------------------------------------


def by_character(change: Callable[[str], str]) -> Callable[[str], str]:
    """One character for each: what would be longer stays."""
    return lambda text: "".join(new if len(new := change(character)) == 1 else character for character in text)


def substring(text: str, start: int, length: int | None = None) -> str:
    return text[start:] if length is None else text[start : start + length]


def extract(text: str, regex: str, group: int = 1) -> str | None:
    """A group that took no part is empty."""
    match = re.search(regex, text)
    return None if match is None else match.group(group) or ""


def joined(parts: Sequence[str | None], separator: str) -> str | None:
    return None if None in parts else separator.join(part for part in parts if part is not None)


def element(values: Sequence[Any], index: int) -> Any:
    return values[index] if 0 <= index < len(values) else None


def concat(*texts: Any) -> Any:
    return texts[0][:0].join(texts)


# --- time ------------------------------------------------------------------------------------------------------------


def civil(us: int) -> tuple[int, date]:
    """The year, and the day in a year of the same length and weekdays that Python's calendar has: it repeats after 400 years."""
    days = us // DURATIONS_US["d"] + (date(1970, 1, 1) - date(1, 1, 1)).days
    cycles, rest = divmod(days, 146097)
    day = date(1, 1, 1) + timedelta(rest)
    return day.year + 400 * cycles, day


def truncate(us: int, duration: str) -> int:
    match = re.fullmatch(r"(\d+)([a-z]+)", duration)
    assert match is not None
    unit = int(match[1]) * DURATIONS_US[match[2]]
    return us // unit * unit


def format_time(us: int, form: str) -> str:
    """`%Y` as C's `%04d`."""
    year_, day_ = civil(us)
    second_, micros = divmod(us % DURATIONS_US["d"], DURATIONS_US["s"])
    parts = {
        **{"%Y": f"{year_:04d}", "%m": f"{day_.month:02d}", "%d": f"{day_.day:02d}", "%j": f"{day_.timetuple().tm_yday:03d}"},
        **{"%H": f"{second_ // 3600:02d}", "%M": f"{second_ // 60 % 60:02d}", "%S": f"{second_ % 60:02d}", "%f": f"{micros:06d}"},
        "%%": "%",
    }
    return re.sub("%.", lambda match: parts[match[0]], form)


_WRITTEN = {"Y": "(?P<Y>[0-9]{4})", "j": "(?P<j>[0-9]{3})", "f": "(?P<f>[0-9]{1,6})", "%": "%"}


def json_get(text: str, path: str) -> str | None:
    """By Python's own parser: what of `text` stands at `path`, as it is written, strings decoded; None: nothing, null, or no JSON."""
    try:
        _JSON.decode(text)
        at: int | None = len(text) - len(text.lstrip(_JSON_BLANKS))
        for name, number, quoted in re.findall(r'\.([^.\[\]"]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]', path):
            step = int(number) if number else json.loads(quoted) if quoted else name
            at = None if at is None else _member(text, at, step)
        if at is None:
            return None
        value, end = _JSON.raw_decode(text, at)
        if isinstance(value, str):
            value.encode()  # halves of surrogate pairs are no text
            return value
        return None if value is None else text[at:end]
    except ValueError:
        return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


_JSON = json.JSONDecoder(parse_constant=_refuse)
_JSON_BLANKS = " \t\n\r"


def _member(text: str, at: int, step: str | int) -> int | None:
    """Where the value of a name, the last of several, or a number begins in the container at `at`; None: it has none, or is none."""
    found, count, is_object = None, 0, text[at] == "{"
    if text[at] not in "{[":
        return None
    at = _behind_blanks(text, at + 1)
    while text[at] not in "}]":
        key: str | int = count
        if is_object:
            key, at = _JSON.raw_decode(text, at)
            at = _behind_blanks(text, _behind_blanks(text, at) + 1)
        found = at if key == step and isinstance(key, type(step)) else found
        _, at = _JSON.raw_decode(text, at)
        at, count = _behind_blanks(text, at), count + 1
        at = _behind_blanks(text, at + 1) if text[at] == "," else at
    return found


def _behind_blanks(text: str, at: int) -> int:
    return at + len(text[at:]) - len(text[at:].lstrip(_JSON_BLANKS))


def parse_time(text: str, form: str) -> int | None:
    """None where it says no instant."""
    parts = re.findall("%.|[^%]+", form, re.DOTALL)
    pattern = (_WRITTEN.get(p[1], f"(?P<{p[1]}>[0-9]{{2}})") if p.startswith("%") else re.escape(p) for p in parts)
    match = re.fullmatch("".join(pattern), text)
    if match is None:
        return None
    said = {"Y": "1970", "m": "1", "d": "1", "H": "0", "M": "0", "S": "0", "f": "0"} | match.groupdict()
    clock = [int(said[letter]) for letter in "HMS"] + [int(said["f"].ljust(6, "0"))]
    try:
        day = date(int(said["Y"]), int(said["m"]), int(said["d"])) + timedelta(int(said.get("j", 1)) - 1)
        instant = datetime.combine(day, time(*clock))
    except (ValueError, OverflowError):
        return None
    return (instant - datetime(1970, 1, 1)) // timedelta(microseconds=1) if day.year == int(said["Y"]) else None


# --- hash ------------------------------------------------------------------------------------------------------------

_FORMATS = {"bool": "?", "int32": "<i", "int64": "<q", "timestamp": "<q", "float64": "<d"}


def hashed(values: Sequence[Any], types: Sequence[DataType]) -> int:
    """As `cep.kernels.tables.keys` and `cep.kernels.tables.hashing` specify it, of fields that may be NULL."""
    if len(types) == 1 and types[0].is_text:
        return _signed(_hash_text(None if values[0] is None else _body(values[0])))
    nulls = sum((value is None) << k for k, value in enumerate(values))
    null_bytes = nulls.to_bytes((len(values) + 7) // 8, "little")
    if not any(type_.is_text for type_ in types):
        fixed = b"".join(_field(*each) for each in zip(values, types, strict=True)) + null_bytes
        if len(fixed) <= 16:
            return _signed(_hash_words(fixed.ljust(16, b"\0")))
    run = b"".join(_field(*each) for each in zip(values, types, strict=True)) + (null_bytes if nulls else b"")
    return _signed(_hash_text(run))


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


def _hash_words(sixteen: bytes) -> int:
    low, high = int.from_bytes(sixteen[:8], "little"), int.from_bytes(sixteen[8:], "little")
    return specified_key(specified_bytes(sixteen), high) if sixteen[15] == 254 else specified_key(low, high)


def _hash_text(body: bytes | None) -> int:
    if body is None:
        return specified_key(0, 255 << 56)
    if len(body) > 15:
        return specified_key(specified_bytes(body), 254 << 56)
    return _hash_words(body.ljust(15, b"\0") + bytes([len(body)]))


def _body(value: Any) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _field(value: Any, type_: DataType) -> bytes:
    if type_.is_text:
        body = b"" if value is None else _body(value)
        length, written = len(body), b""
        while length > 127:
            length, written = length >> 7, written + bytes([length & 127 | 128])
        return written + bytes([length]) + body
    form = _FORMATS[type_.name]
    if value is None:
        return bytes(struct.calcsize(form))
    return struct.pack(form, math.nan if is_nan(value) else value + 0.0 if isinstance(value, float) else value)


def split_regex(text: str, regex: str) -> list[str]:
    """Without the groups, which Python puts between the parts."""
    parts, end = [], 0
    for found in re.finditer(regex, text):
        if found.end() > found.start():
            parts.append(text[end : found.start()])
            end = found.end()
    return [*parts, text[end:]]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: ieee(getattr(math, name)) for name in ("sqrt", "exp", "sin", "cos", "tan", "asin", "acos", "atan", "atan2")},
    **{name: logarithm(function) for name, function in (("ln", math.log), ("log10", math.log10), ("log2", math.log2))},
    "pow": ieee(power),
    "floor": rounded(math.floor),
    "ceil": rounded(math.ceil),
    "trunc": rounded(math.trunc),
    "round": round_,
    "sign": sign,
    "is_nan": is_nan,
    "length": len,
    "byte_length": lambda text: len(_body(text)),
    "lower": by_character(str.lower),
    "upper": by_character(str.upper),
    "trim": lambda text: text.strip(BLANKS),
    "ltrim": lambda text: text.lstrip(BLANKS),
    "rtrim": lambda text: text.rstrip(BLANKS),
    "reverse": lambda text: text[::-1],
    "contains": lambda text, part: part in text,
    "starts_with": lambda text, part: text.startswith(part),
    "ends_with": lambda text, part: text.endswith(part),
    "substring": substring,
    "pad_left": lambda text, width, fill=" ": text.rjust(width, fill),
    "pad_right": lambda text, width, fill=" ": text.ljust(width, fill),
    "replace": lambda text, old, new: text.replace(old, new),
    "matches": lambda text, regex: re.search(regex, text) is not None,
    "extract": extract,
    "index_of": lambda text, part: text.find(part),
    "split_regex": split_regex,
    "json_get": json_get,
    "split": lambda text, separator: text.split(separator),
    "concat": concat,
    "truncate": truncate,
    "format_time": format_time,
    "parse_time": parse_time,
    "year": lambda us: civil(us)[0],
    "month": lambda us: civil(us)[1].month,
    "day": lambda us: civil(us)[1].day,
    "weekday": lambda us: civil(us)[1].isoweekday(),
    "day_of_year": lambda us: civil(us)[1].timetuple().tm_yday,
    "hour": lambda us: us // DURATIONS_US["h"] % 24,
    "minute": lambda us: us // DURATIONS_US["m"] % 60,
    "second": lambda us: us // DURATIONS_US["s"] % 60,
    "millisecond": lambda us: us // DURATIONS_US["ms"] % 1000,
    "epoch_s": lambda us: us // DURATIONS_US["s"],
    "epoch_ms": lambda us: us // DURATIONS_US["ms"],
    "epoch_us": lambda us: us,
    "list_length": len,
    "element": element,
    "join": joined,
}
