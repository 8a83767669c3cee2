"""A row of the table of bars, and the commands that it has; what stands in these, says `benchmarks.rows`."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.pairs import Bar
from benchmarks.programs import PLACE

Command = tuple[str, ...]

LINES = "lines"


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Args:
        what: what is measured, for a reader.
        data: the name of a dataset; empty: the row reads no file.
        ours: our command.
        reference: what it is compared with, run in alternation; None: bars are for our figure itself.
        bars: what is to be reached.
        equal: what shows that both gave the same answers: LINES of the files in {out}, in any order, or a member of both JSONs.
        cores: where the commands may run, by position among the cores there are.
        reference_cores: where the reference may run instead.
        turns: how often the sides run in turn for one pair, of which the figure in the middle counts.
        beside: other commands, run once each, whose figures stand beside the row and prove nothing.
        notes: what a reader has to know to compare.
    """

    name: str
    what: str
    ours: Command
    bars: tuple[Bar, ...]
    data: str = ""
    reference: Command | None = None
    equal: str = ""
    cores: str = "0"
    reference_cores: str = ""
    turns: int = 1
    beside: dict[str, Command] = field(default_factory=dict)
    notes: str = ""


def module(name: str, *arguments: str) -> Command:
    """`benchmarks/measured/<name>.py`."""
    return ("{python}", "-m", f"benchmarks.measured.{name}", *arguments)


def program(name: str, *arguments: str) -> Command:
    """`benchmarks/references/<name>.c`, or `.cpp`."""
    return (f"{PLACE}{name}", *arguments)


CPU = "records_per_cpu_s"
SHORT, PERCENTILES = 5, 3
"""Turns of rows whose runs take less than a second, and of those whose figure is what a hundredth of a run was like: what else the machine
does decides over a single one."""
