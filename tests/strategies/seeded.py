"""Cases drawn from seeds, so that several tests run the same ones: their machine code is compiled once for all."""

from __future__ import annotations

from typing import TypeVar

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.strategies.constants import without_ours
from tests.strategies.executions import Execution, executions
from tests.strategies.files import FileCase, contents_of, file_queries
from tests.strategies.queries import Case, inputs_of, published_queries

T = TypeVar("T")

OPERATORS_MAX = 3
#: (queries, ways to run each), in CI and, besides these, in the long mode.
PUBLISHED, READ = ((3, 2), (60, 3)), ((2, 2), (20, 3))


def published_cases() -> pytest.MarkDecorator:
    """`number` of a query and the `way` to run it, for `published`."""
    return _seeds("published", *PUBLISHED)


def read_cases() -> pytest.MarkDecorator:
    """The same for `read`."""
    return _seeds("read", *READ)


def _seeds(name: str, ci: tuple[int, int], long: tuple[int, int]) -> pytest.MarkDecorator:
    both = [(number, way) for number in range(long[0]) for way in range(long[1])]
    marks = [() if number < ci[0] and way < ci[1] else (pytest.mark.long,) for number, way in both]
    names = [f"{name}-{number}-{way}" for number, way in both]
    return pytest.mark.parametrize(
        ("number", "way"), [pytest.param(*one, marks=mark, id=name) for one, mark, name in zip(both, marks, names, strict=True)]
    )


def published(number: int, way: int) -> tuple[Case, Execution]:
    """The streams of each query are its own: in a cluster they outlive it."""
    query = drawn(published_queries(OPERATORS_MAX, names=(f"s{number}", f"r{number}")), str(number))
    inputs, execution = drawn(st.tuples(inputs_of(query), executions()), f"{number}-{way}")
    return Case(query, inputs), execution


def read(number: int, way: int) -> tuple[FileCase, Execution]:
    """Each has files of its own, and so a stream."""
    query = drawn(file_queries(OPERATORS_MAX, f"f{number}-{way}"), str(number))
    files, execution = drawn(st.tuples(contents_of(query), executions()), f"{number}-{way}")
    return FileCase(query, files), execution


def drawn(strategy: SearchStrategy[T], text: str) -> T:
    """The value that the seed `text` gives: Hypothesis's first example is the plainest there is, the second one is random.

    It is the same in every process and after every edit, but for one of the strategies themselves.
    """
    values: list[T] = []

    @seed(text)
    @settings(max_examples=2, phases=[Phase.generate], database=None)
    @given(strategy)
    def keep(value: T) -> None:
        values.append(value)

    with without_ours():
        keep()
    return values[-1]
