"""What an operator at work is built with, beside its description: the same for all operators of an instance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.layout import Layout
from cep.dataflow.state.hold import Hold
from cep.model.schema import Schema
from cep.world.store import Store


def any_file(path: str) -> None:
    """Every path may be read."""


@dataclass(frozen=True)
class BuildContext:
    """`clock`: µs; `state_limit`: bytes of one operator; `probe_rows`: see `Reduction`; `store`: of tables' files; `check_file` raises
    QueryError for a path that no query may read; `arriving`: the operator gets the state of one that was elsewhere."""

    layout: Layout
    dead_letters: DeadLetters
    clock: Callable[[], int]
    state_limit: int
    probe_rows: int
    store: Store
    check_file: Callable[[str], object] = any_file
    arriving: bool = False

    def columns(self, producer: str) -> Schema:
        """The columns of the tuples of `producer`."""
        return self.layout.columns(producer)

    def hold(self, producer: str) -> Hold:
        """For the tuples of `producer`, to be taken in stream order."""
        return Hold(self.columns(producer), self.layout.words(producer), self.layout.ties(producer))
