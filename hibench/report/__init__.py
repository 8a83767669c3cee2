"""Reports: the terminal's table (`terminal`), and what `hibench report` and `hibench compare` make from run records."""

from hibench.report.terminal import ComparisonReport, TimedStep, expect_equal, show

__all__ = ["ComparisonReport", "TimedStep", "expect_equal", "show"]
