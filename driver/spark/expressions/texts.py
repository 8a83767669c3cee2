"""Functions of texts. Code points are Spark's characters too; order and equality are by bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, functions
from pyspark.sql.functions import char_length, concat, lit, regexp_extract, repeat, rlike, when

from driver.spark.expressions.patterns import escaped_pattern, java

_BLANKS = " \t\n\r\v\f"
_LENGTH_MAX = 2**31 - 1


@cache
def _cases(change: str) -> tuple[str, str]:
    """The characters that Arrow's `change` changes, and what they become: Java's Unicode is another, and makes several of one."""
    every = "".join(chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)
    changed = getattr(pc, change)(pa.scalar(every)).as_py()
    pairs = [(one, other) for one, other in zip(every, changed, strict=True) if one != other]
    return "".join(one for one, _ in pairs), "".join(other for _, other in pairs)


def _substring(text: Column, start: int, length: int = _LENGTH_MAX) -> Column:
    return functions.substring(text, min(start, _LENGTH_MAX - 1) + 1, length)


def _padding(text: Column, width: int, fill: str) -> Column:
    """Spark's own pads cut what is wider."""
    return repeat(lit(fill), lit(width) - char_length(text))


def _matches(text: Column, regex: str) -> Column:
    return rlike(text, lit(java(regex, extracts=False)))


def _extract(text: Column, regex: str, group: int = 1) -> Column:
    """Spark's is empty without a match too."""
    pattern = java(regex, extracts=True)
    return when(rlike(text, lit(pattern)), regexp_extract(text, pattern, group))


TEXTS: dict[str, Callable[..., Column]] = {
    "length": lambda text: char_length(text).cast("long"),
    "byte_length": lambda text: functions.octet_length(text).cast("long"),
    "lower": lambda text: functions.translate(text, *_cases("utf8_lower")),
    "upper": lambda text: functions.translate(text, *_cases("utf8_upper")),
    "trim": lambda text: functions.trim(text, lit(_BLANKS)),
    "ltrim": lambda text: functions.ltrim(text, lit(_BLANKS)),
    "rtrim": lambda text: functions.rtrim(text, lit(_BLANKS)),
    "reverse": functions.reverse,
    "contains": functions.contains,
    "starts_with": functions.startswith,
    "ends_with": functions.endswith,
    "substring": _substring,
    "pad_left": lambda text, width, fill=" ": concat(_padding(text, width, fill), text),
    "pad_right": lambda text, width, fill=" ": concat(text, _padding(text, width, fill)),
    "replace": lambda text, old, new: functions.replace(text, lit(old), lit(new)),
    "matches": _matches,
    "extract": _extract,
    "split": lambda text, by: functions.split(text, escaped_pattern(by), -1),
    "split_regex": lambda text, regex: functions.split(text, java(regex, extracts=False), -1),
    "index_of": lambda text, part: (functions.locate(part, text) - lit(1)).cast("long"),
    "concat": concat,
}
