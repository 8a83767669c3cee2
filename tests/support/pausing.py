"""Operators driven by hand: what they yield besides the places where an instance may pause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cep.elements import Batch


def without_pauses(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Those with rows."""
    return (batch for batch in batches if len(batch))
