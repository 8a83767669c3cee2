"""Which of the three loops finds the matches of a pattern."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cep.compile.patterns.cohorts import Cohorts
from cep.compile.patterns.conditions import WaysLoop
from cep.compile.patterns.families import FamilyBundles
from cep.compile.patterns.ways import Ways
from cep.model.operators import PatternWays

_chosen = {"apart": 0}


def matcher_of(operator: PatternWays, loop: WaysLoop) -> Ways | Cohorts | FamilyBundles:
    """Cohorts where the starts of the pattern go on together; where all matches are asked for, families, if they do; else the ways of
    each start."""
    if not _chosen["apart"]:
        if not isinstance(operator.outlooks, str):
            return Cohorts(operator, operator.outlooks)
        if not isinstance(operator.families, str):
            return FamilyBundles(operator, operator.families)
    return Ways(operator, loop)


@contextmanager
def each_way_apart() -> Iterator[None]:
    """Inside, patterns are built with the ways of each start by themselves, whatever they are: so tests compare both, and benchmarks."""
    _chosen["apart"] += 1
    try:
        yield
    finally:
        _chosen["apart"] -= 1
