"""Matches of a pattern in the rows of each group: said for short for what finds them and a branch for each kind of outcome."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cep.model.contract.operator import Operator, Wanted
from cep.model.operators.pattern_ways import ALL_ROWS, TIMED_OUT, UNMATCHED, PatternBranch, PatternDescription, PatternWays
from cep.model.schema import Schema


@dataclass(frozen=True)
class Pattern(PatternDescription):
    """Matches, under the name of the pattern, and its branches `name.timed_out` and `name.unmatched`."""

    @property
    def branches(self) -> tuple[str, ...]:
        more = [branch for branch, there in ((TIMED_OUT, self.timed_out), (UNMATCHED, self.unmatched)) if there]
        return (self.name, *(f"{self.name}.{branch}" for branch in more))

    @property
    def ways(self) -> str:
        """The name of what finds the matches in a plan."""
        return f"{self.name}.ways"

    def in_full(self) -> tuple[Operator, ...]:
        """What finds matches, and what makes of them each branch."""
        ways = PatternWays(**{key: getattr(self, key) for key in self.__dataclass_fields__} | {"name": self.ways})
        given = ((name, name.removeprefix(self.name).removeprefix(".")) for name in self.branches)
        return (ways, *(PatternBranch(name, self.ways, kind, self.by, self.measures, self.rows) for name, kind in given))

    def output_schema(self, *inputs: Schema) -> Schema:
        ways, matched, *_ = self.in_full()
        return matched.output_schema(ways.output_schema(*inputs))

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return {*self.read_columns, *(names if self.rows == ALL_ROWS or self.unmatched else ())}

    def passes(self, column: str) -> tuple[str, ...] | None:
        return (column,) * len(self.inputs) if column in self.by else None
