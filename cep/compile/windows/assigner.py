"""From the description of a window to its assigner: the kernels, what they remember of a group, and when they may forget it."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from cep.kernels.jit import Kernel, warm
from cep.kernels.tables.group_table import number_groups
from cep.kernels.windows.assign_size import assign_size, end_size
from cep.kernels.windows.assigners import assign_sessions, assign_transactions, close_sessions, end_transactions, open_sessions
from cep.kernels.windows.programs import BACK, COUNT, FRONT, NONE, SLOT, free_slots, list_slots
from cep.model.windows import SessionWindow, SizeWindow, TransactionWindow, Window


@dataclass(frozen=True)
class Assigner:
    """`fresh`: the words of a new group, behind its key. `end`: answers of windows that are incomplete at the end."""

    assign: Kernel
    end: Kernel | None
    parameters: np.ndarray
    fresh: tuple[int, ...]
    gap: int | None = None  # of sessions

    @property
    def stacks(self) -> bool:
        """Does a group hold more than one slot?"""
        return 2 + len(self.fresh) > FRONT

    def warm(self) -> None:
        """Makes its machine code now."""
        kernels = [number_groups, free_slots, list_slots, self.assign, *([self.end] if self.end is not None else [])]
        kernels += [close_sessions, open_sessions] if self.gap is not None else []
        warm(*kernels)

    def incomplete(self, groups: np.ndarray) -> int:
        """How many windows have a row and wait for more. `groups`: the words of each, int64[n, any]."""
        if self.end is None:
            return 0
        if not self.stacks:
            return int((groups[:, SLOT] >= 0).sum())
        size, advance, _ = self.parameters.tolist()
        count = groups[:, COUNT]
        begun = (count - 1) // advance + 1
        return int((begun - np.maximum((count - size) // advance + 1, 0)).sum())

    def over(self, groups: np.ndarray) -> np.ndarray:
        """bool[n]: which groups begin anew with whatever comes, so that they can be forgotten."""
        if self.stacks:
            return (groups[:, FRONT] < 0) & (groups[:, BACK] < 0)
        return groups[:, SLOT] < 0


_ONE_WINDOW = (NONE, 0, 0, 0)


def assigner_of(window: Window) -> Assigner:
    match window:
        case SizeWindow(size, advance):
            parameters = np.array([size, advance, gcd(size, advance)], np.int64)
            return Assigner(assign_size, end_size, parameters, (*_ONE_WINDOW, NONE, NONE, 0, 0))
        case SessionWindow(gap):
            return Assigner(assign_sessions, None, np.array([gap, 0, 0], np.int64), _ONE_WINDOW, gap=gap)
        case TransactionWindow():
            return Assigner(assign_transactions, end_transactions, np.zeros(3, np.int64), _ONE_WINDOW)
    raise AssertionError(window)
