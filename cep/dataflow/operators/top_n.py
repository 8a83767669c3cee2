"""What overlapping windows of a TopN share, made once: the answers of panes together, by two stacks.

As in `cep.compile.windows.firing`: `back` is the answers of the panes taken since the last flip, and front number j those of the
panes from j·advance to the flip. A window is one front and the back, however many panes it has. The panes themselves stay: they are
what a snapshot writes, and the stacks can be made from them again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from cep.dataflow.channel import batch_bytes
from cep.dataflow.state.row_panes import RowPanes
from cep.elements import PAUSE, Batch
from cep.model.windows import TimeWindow


class TopStacks:
    """Windows are asked for in order, each once its panes are complete."""

    def __init__(self, window: TimeWindow, panes: RowPanes) -> None:
        self.panes, self.ranking = panes, panes.ranking
        self.size, self.advance = window.size // panes.pane, window.advance // panes.pane
        self.bytes = 0
        self._front: list[tuple[int, Batch]] = []  # least j last
        self._back: Batch | None = None
        self._taken: int | None = None  # panes before it are in front or back, or over

    def batches(self, k: int) -> Generator[Batch, None, list[Batch]]:
        """Rows among which are the answers of window `k`; it pauses while it takes very many panes."""
        first, end = k * self.advance, k * self.advance + self.size
        while self._front and self._front[-1][0] < k:
            self._front.pop()
        if not self._front:
            yield from self._flip(first)
        for number in self.panes.between(first if self._taken is None else max(first, self._taken), end):
            self._back = self._together(self._back, number)
            yield PAUSE
        self._taken = end
        parts = [batch for _, batch in self._front] + ([] if self._back is None else [self._back])
        self.bytes = sum(map(batch_bytes, parts))
        return parts[-2:] if self._front and self._back is not None else parts[-1:]

    def _flip(self, first: int) -> Iterator[Batch]:
        """Makes the front anew of what was taken and is still needed."""
        self._back = None
        for number in reversed(self.panes.between(first, first if self._taken is None else self._taken)):
            j = number // self.advance
            before = self._front[-1][1] if self._front else None
            if self._front and self._front[-1][0] == j:
                self._front.pop()
            self._front.append((j, self._together(before, number)))
            yield PAUSE

    def _together(self, batch: Batch | None, number: int) -> Batch:
        pane = self.panes[number].batches
        return self.ranking.answers(pane if batch is None else [batch, *pane])

    def clear(self) -> None:
        """Panes that may have been taken have got rows, or are gone."""
        self._front, self._back, self._taken, self.bytes = [], None, None, 0
