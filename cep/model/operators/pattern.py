"""Matches of a pattern in the rows of each group: said for short for what finds them and a branch for each kind of outcome."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

from cep.model.contract.operator import Operator, Wanted
from cep.model.operators.filter import Filter
from cep.model.operators.pattern_ways import ALL_ROWS, TIMED_OUT, UNMATCHED, PatternBranch, PatternDescription, PatternWays
from cep.model.patterns.relevance import relevance
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

    @property
    def finding(self) -> PatternWays:
        """What finds the matches."""
        return PatternWays(**{key: getattr(self, key) for key in self.__dataclass_fields__} | {"name": self.ways})

    @cached_property
    def relevant(self) -> Filter | None:
        """What leaves rows out that are not in the sequence, so that they need not be sent to where the others of their group are; None:
        all are in it, or that is not known of a row by itself."""
        condition = None if self.takes_all or len(self.inputs) > 1 else relevance(self.define)
        return None if condition is None else Filter(f"{self.name}.relevant", self.inputs[0], condition)

    def in_full(self) -> tuple[Operator, ...]:
        """What leaves rows out, what finds matches, and what makes of them each branch."""
        ways, before = self.finding, self.relevant
        if before is not None:
            define = tuple((name, replace(definition, input=None)) for name, definition in self.define)
            ways = replace(ways, inputs=(before.name,), define=define)
        given = ((name, name.removeprefix(self.name).removeprefix(".")) for name in self.branches)
        branches = (PatternBranch(name, self.ways, kind, self.by, self.measures, self.rows) for name, kind in given)
        return (*(() if before is None else (before,)), ways, *branches)

    def output_schema(self, *inputs: Schema) -> Schema:
        found = self.finding.output_schema(*inputs)
        return next(each for each in self.in_full() if each.name == self.name).output_schema(found)

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return {*self.read_columns, *(names if self.rows == ALL_ROWS or self.unmatched else ())}

    def passes(self, column: str) -> tuple[str, ...] | None:
        return (column,) * len(self.inputs) if column in self.by else None
