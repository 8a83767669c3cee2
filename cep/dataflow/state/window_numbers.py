"""Windows of event time by number: window k goes from offset + k·advance to `size` behind that, and is whole panes."""

from __future__ import annotations

import numpy as np

from cep.model.windows import TimeWindow
from cep.values import value


@value
class WindowNumbers:
    window: TimeWindow

    def start(self, k: int) -> int:
        return k * self.window.advance + self.window.offset

    def end(self, k: int) -> int:
        return self.start(k) + self.window.size

    def last(self, watermark: int) -> int:
        """The last window that ends by `watermark`."""
        return (watermark - self.window.offset - self.window.size) // self.window.advance

    def first_with(self, pane: int) -> int:
        """The first window that has this pane."""
        return (pane * self.window.pane - self.window.size) // self.window.advance + 1

    @property
    def overlap(self) -> int:
        """In how many windows a pane is, at most."""
        return -(-self.window.size // self.window.advance)

    def panes(self, k: int, end: int) -> tuple[int, int]:
        """The first pane of windows `k` to before `end`, and the one behind their last."""
        first, last = (each * self.window.advance // self.window.pane for each in (k, end - 1))
        return first, last + self.window.size // self.window.pane

    def with_panes(self, panes: np.ndarray, k: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last of windows `k` to before `end` that have these panes, int64[n] each; none where the last is before the
        first."""
        times = panes * self.window.pane
        least, greatest = (times - self.window.size) // self.window.advance + 1, times // self.window.advance
        return np.maximum(least, k), np.minimum(greatest, end - 1)
