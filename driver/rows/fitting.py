"""Rows that go to a stream but for those that do not fit it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cep.errors import DataError


def send_fitting(rows: int, send: Callable[[int, int], None]) -> Iterator[tuple[int, DataError]]:
    """Has `send` send `rows` rows in their order: from one to before another, all of these or, where it raises DataError, none. Yields
    those that do not fit, each with what is wrong. Raises DataError: it is said of no row."""
    left = [(0, rows)]  # the next ones last
    while left:
        begin, end = left.pop()
        if begin == end:
            continue
        try:
            send(begin, end)
        except DataError as error:
            if error.row is None:
                raise
            at = begin + error.row
            yield at, error
            left += [(at + 1, end), (begin, at)]  # of another field a row before may be wrong, too
