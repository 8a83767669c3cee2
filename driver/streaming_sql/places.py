"""Where parts of a statement stand in its text."""

from __future__ import annotations

from sqlglot import exp


def start_of(node: exp.Expr | None) -> int | None:
    """The offset where it begins: operators have none, so the least of what is inside."""
    if node is None:
        return None
    found = [each.meta["start"] for each in node.walk() if each._meta and "start" in each.meta]
    return min(found, default=None)
