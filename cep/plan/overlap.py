"""In how many windows one row lies: each of them is an answer, so one row may mean that much work."""

from __future__ import annotations

from cep.errors import QueryError
from cep.model.query import Query
from cep.model.windows import CumulateWindow, PanedWindow, SizeWindow


def windows_per_row(window: PanedWindow | SizeWindow) -> int:
    """size ÷ advance, rounded up; of a row of the first step of CUMULATE size ÷ step."""
    return -(-window.size // (window.step if isinstance(window, CumulateWindow) else window.advance))


def check_overlap(query: Query) -> None:
    """Raises QueryError for a window of which more overlap than the query's options allow."""
    most = query.options.windows_per_row_max
    for i, operator in enumerate(query.operators):
        for key, window in operator.windows.items():
            count = windows_per_row(window)
            if count > most:
                between = "step" if isinstance(window, CumulateWindow) else "advance"
                message = (
                    f"operator {operator.name!r}: a row lies in {count:,} windows (size ÷ {between}), each of which is an answer; "
                    f"expected at most {most:,}; take a longer {between}, or raise the option windows_per_row_max"
                )
                raise QueryError(message, f"/operators/{i}/{key}")
