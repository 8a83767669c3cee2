"""Many counts as one text: as numbers of JSON, thousands of them take the processes that write and read them milliseconds."""

from __future__ import annotations

import base64
from array import array
from collections.abc import Sequence
from typing import Any


def packed(counts: Any) -> str:
    """int64[n], an array of NumPy's or another buffer, as base64 of its bytes."""
    return base64.b64encode(counts).decode()


def unpacked(text: str) -> Sequence[int]:
    """Raises ValueError: it is none that was `packed`."""
    counts = array("q")
    try:
        counts.frombytes(base64.b64decode(text, validate=True))
    except ValueError as error:
        raise ValueError(f"expected packed counts, got {text!r:.200}: {error}") from None
    return counts
