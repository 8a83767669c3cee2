"""Finds the values that cannot be read among many that can: what cannot be read together is read in pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from connectors.contract.formats import Decoded

PIECES = 16  # where reading all has cost time already, a piece of many should not cost it again and again

WRONG = (pa.ArrowException, ValueError, TypeError, ArithmeticError, LookupError, RecursionError)
"""What reading nonsense leads to, in Arrow, in Python and in libraries. Whatever else is raised is no fault of a value's."""

ReadMany = Callable[[Sequence[bytes]], pa.RecordBatch]
"""Raises one of WRONG: one of the values is no row. It need not say which."""


def read_apart(values: Sequence[bytes], many: ReadMany, one: ReadMany) -> Decoded:
    """`one` has the last word of a value by itself."""
    found = Decoded()
    open_ = [(0, len(values))] if values else []
    while open_:
        first, behind = open_.pop()
        part = values[first:behind]
        try:
            found.runs.append((first, many(part) if len(part) > 1 else one(part)))
        except WRONG as error:
            if len(part) == 1:
                found.bad.append((first, str(error)[:500]))
            else:
                size = -(-len(part) // PIECES)
                open_ += [(begin, min(begin + size, behind)) for begin in range(first, behind, size)][::-1]
    return found
