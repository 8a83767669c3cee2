"""The queries q0 to q23, in their order."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.nexmark.asked import Nexmark
from benchmarks.nexmark.joined import JOINED
from benchmarks.nexmark.plain import PLAIN
from benchmarks.nexmark.windowed import WINDOWED

QUERIES = tuple(sorted((*PLAIN, *WINDOWED, *JOINED), key=lambda query: int(query.name[1:])))


def chosen(names: Iterable[str]) -> list[Nexmark]:
    """Those of these names, in their order; none named: all. Raises ValueError for a name that is not there."""
    wanted = set(names)
    if unknown := sorted(wanted - {query.name for query in QUERIES}):
        raise ValueError(f"no query {', '.join(map(repr, unknown))}; there are q0 to q{len(QUERIES) - 1}")
    return [query for query in QUERIES if not wanted or query.name in wanted]
