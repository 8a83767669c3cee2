"""In how many windows one row lies: each of them is an answer, so one row may mean that much work."""

from __future__ import annotations

from collections.abc import Iterator

from cep.errors import QueryError
from cep.model.operators import Operator
from cep.model.query import Query
from cep.model.windows import SizeWindow, TimeWindow


def windows_per_row(window: TimeWindow | SizeWindow) -> int:
    """size ÷ advance, rounded up."""
    return -(-window.size // window.advance)


def check_overlap(query: Query) -> None:
    """Raises QueryError for a window of which more overlap than the query's options allow."""
    most = query.options.windows_per_row_max
    for i, operator in enumerate(query.operators):
        for key, window in _windows(operator):
            count = windows_per_row(window)
            if count > most:
                message = (
                    f"operator {operator.name!r}: a row lies in {count:,} windows (size ÷ advance), each of which is an answer; "
                    f"expected at most {most:,}; take a longer advance, or raise the option windows_per_row_max"
                )
                raise QueryError(message, f"/operators/{i}/{key}")


def _windows(operator: Operator) -> Iterator[tuple[str, TimeWindow | SizeWindow]]:
    for key in ("window", "right_window"):
        window = getattr(operator, key, None)
        if isinstance(window, TimeWindow | SizeWindow):
            yield key, window
