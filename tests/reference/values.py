"""How values compare (rule 5.7): NaN equals NaN and is greatest, -0.0 equals 0.0 in keys, NULL is a group."""

from __future__ import annotations

import math
from typing import Any

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1

#: One object, since a dict finds a NaN only by identity.
NAN = math.nan


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def fits_int64(value: int) -> bool:
    return INT64_MIN <= value <= INT64_MAX


def normal(value: Any) -> Any:
    """The one value that stands for all that are equal to it in a key, or in MIN and MAX."""
    if not isinstance(value, float):
        return value
    return NAN if is_nan(value) else value + 0.0  # -0.0 + 0.0 is 0.0


def rank(value: Any) -> tuple[int, Any, int]:
    """Sort key of a column's value: NULL, then numbers and text ascending, -0.0 before 0.0, then NaN.

    Text goes by bytes, which for UTF-8 is the order of code points, Python's own; a list by its elements.
    """
    if isinstance(value, list):
        return (1, [rank(element) for element in value], 0)
    if value is None:
        return (0, 0, 0)
    if is_nan(value):
        return (2, 0, 0)
    positive = not (isinstance(value, float) and math.copysign(1.0, value) < 0)
    return (1, value, int(positive))
