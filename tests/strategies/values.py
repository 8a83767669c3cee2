"""Values, NULLs among them where they may be, mostly from small pools."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from cep.model.schema import BINARY, BOOL, FLOAT64, INT32, INT64, STRING, UNIT_US, DataType, Field

TIMESTAMP_US, TIMESTAMP_MS = DataType("timestamp", "us"), DataType("timestamp", "ms")
TYPES = (INT64, STRING, FLOAT64, BOOL, INT32, TIMESTAMP_MS, BINARY)
INT64_EXTREMES = (2**63 - 1, -(2**63), 2**62, -(2**62), 2**53 + 1, 2**31)
INT32_EXTREMES = (2**31 - 1, -(2**31), 2**16)
FLOATS = (0.5, -0.0, 0.1, 2.5, 1e16, -1e16, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"))
ZEROS = (0.0, -0.0, float("nan"))
#: Around the border of an inline key (15 bytes), with one beginning, with zeros, and of more than one byte a character.
TEXTS = (
    "",
    "a",
    "b",
    "ab",
    "x" * 14,
    "x" * 15,
    "x" * 16,
    "x" * 15 + "y",
    "x" * 40,
    "x" * 39 + "y",
    "a\0",
    "\0",
    "é",
    "日本語日本",
    "🜁",
)


@lru_cache(4096)
def _has_python_s_case(character: str) -> bool:
    """Not where Arrow's Unicode is newer than Python's, or has one character for what Python makes two of."""
    array = pa.array([character])
    changes = ((pc.utf8_lower, str.lower), (pc.utf8_upper, str.upper))
    return all(of(array)[0].as_py() == (new if len(new := python(character)) == 1 else character) for of, python in changes)


TEXT_ALPHABET = st.characters(codec="utf-8", exclude_categories=["Cs"]).filter(_has_python_s_case)


@cache
def values_of(type_: DataType) -> SearchStrategy[Any]:
    """Values of `type_`, never NULL; a timestamp is µs, a whole number of its units."""
    match type_.name:
        case "bool":
            return st.booleans()
        case "int32":
            return st.one_of(st.integers(-3, 3), st.sampled_from(INT32_EXTREMES))
        case "int64":
            return st.one_of(st.integers(-3, 3), st.sampled_from(INT64_EXTREMES), st.integers(-(2**63), 2**63 - 1))
        case "float64":
            return st.one_of(st.integers(-3, 3).map(float), st.sampled_from(FLOATS), st.floats())
        case "timestamp":
            return st.one_of(st.integers(-3, 30), st.integers(-(2**52), 2**52)).map(lambda n: n * UNIT_US[type_.unit])
        case "string":
            return st.one_of(st.sampled_from(TEXTS), st.text(TEXT_ALPHABET, max_size=20))
        case "binary":
            return st.one_of(st.sampled_from([text.encode() for text in TEXTS]), st.binary(max_size=20))
        case "list":
            assert type_.element is not None
            return st.lists(st.one_of(st.none(), values_of(type_.element)), max_size=3)
    raise AssertionError(type_)


def cells(field: Field, values: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """`values`, and NULL where `field` may be it."""
    return st.one_of(values, st.none()) if field.nullable else values


@st.composite
def columns(draw: DrawFn, field: Field) -> SearchStrategy[Any]:
    """Cells of one column: mostly from a pool of a few values, so that groups meet and aggregates tie."""
    few = st.lists(values_of(field.type), min_size=1, max_size=4)
    pool = draw(st.one_of(few, st.permutations(ZEROS)) if field.type == FLOAT64 else few)
    return cells(field, st.one_of(st.sampled_from(pool), st.sampled_from(pool), values_of(field.type)))
