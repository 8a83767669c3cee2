"""Rows out of order."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import timedelta
from typing import Any


def jumbled(rows: Iterable[dict[str, Any]], at: str, disorder: timedelta, seed: int) -> list[dict[str, Any]]:
    """The rows in an order in which none is more than `disorder` behind the greatest time `at` before it: none is late."""
    draw = random.Random(seed)
    return sorted(rows, key=lambda row: row[at] + disorder * draw.random())
