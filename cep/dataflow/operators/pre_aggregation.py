"""Whether partial results pay, found out while it runs: on nearly unique keys they cost a table and reduce nothing (rule 5.6).

A stage of partial results watches how many groups its tuples fall into. Where there are nearly as many as tuples, it lets every
tuple through as a partial result of its own; after a while it looks again. Answers do not depend on it: partial results merge
exactly, however many there are.
"""

from __future__ import annotations

from cep.compile.aggregate.window_state import WindowState

#: Tuples taken before a pane has ended after which it is looked at for the first time, and groups for each tuple that are too many.
PROBE_ROWS, TOO_MANY = 1 << 16, 0.8
#: The same for a pane that has ended: a partial result costs about as much as it saves where it stands for two tuples.
TOO_MANY_IN_ALL = 0.5
#: For each tuple of a probe, tuples let through before it is tried again.
RETRY = 64


class Reduction:
    """What is known of one stage. `enabled`: the plan leaves the choice to it; otherwise every tuple is taken. `probe_rows`: tuples that
    have to be taken before it decides."""

    def __init__(self, enabled: bool, probe_rows: int = PROBE_ROWS) -> None:
        self.enabled, self.probe_rows = enabled, probe_rows
        self.bypassing = False
        self.bypassed = 0  # tuples, in all
        self._taken = 0  # tuples taken into the table since the last decision
        self._left = 0  # groups that have left it since
        self._until = 0  # of `bypassed`: when to try again

    def takes(self, rows: int) -> bool:
        """Are the next `rows` tuples to be gathered into groups?"""
        if self.bypassing and self.bypassed < self._until:
            self.bypassed += rows
            return False
        if self.bypassing:
            self.bypassing, self._taken, self._left = False, 0, 0
        self._taken += rows
        return True

    def look(self, state: WindowState) -> None:
        """After tuples were taken: are there far too many groups already?"""
        if self.enabled and self._taken >= self.probe_rows:
            self._decide(self._left + state.groups, TOO_MANY)

    def ended(self, groups: int, open_panes: int) -> None:
        """Panes have ended, of `groups` groups; `open_panes` are left."""
        self._left += groups
        if self.enabled and self._taken >= self.probe_rows and not open_panes:
            self._decide(self._left, TOO_MANY_IN_ALL)
            self._taken = self._left = 0

    def _decide(self, groups: int, too_many: float) -> None:
        if groups > too_many * self._taken:
            self.bypassing, self._until = True, self.bypassed + RETRY * self.probe_rows
