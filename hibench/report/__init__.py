"""Reports: the terminal's table (`terminal`), and what `hibench report` and `hibench compare` make from run records."""

from hibench.report.terminal import Report, Step, expect_equal, show

__all__ = ["Report", "Step", "expect_equal", "show"]
