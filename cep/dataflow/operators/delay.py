"""Delay: the same tuples, later in event time. It holds nothing: time and watermark are shifted alike.

But no watermark other than the end goes beyond EVENT_TIME_MAX, where that of no source goes: what is incomplete at the end
comes out there (`emit_partial`), and may not be older than what was promised.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cep.compile.aggregate.spec import TIME_MAX
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import OneForOne
from cep.elements import EVENT_TIME_MAX, MAX_TIME, MIN_TIME, Batch
from cep.errors import DataError
from cep.model.operators import Delay


class DelayOperator(OneForOne):
    """Raises DataError for a tuple that would come out beyond TIME_MAX."""

    def __init__(self, operator: Delay) -> None:
        self.name, self.by = operator.name, operator.by

    def apply(self, batch: Batch) -> Batch:
        latest = int(batch.time.max(initial=MIN_TIME))
        if latest > TIME_MAX - self.by:
            raise DataError(f"operator {self.name!r}: event times must lie within ±{TIME_MAX} µs, got {latest} µs + {self.by} µs")
        return replace(batch, time=batch.time + np.int64(self.by))

    def watermark_after(self, watermark: int) -> int:
        return watermark if watermark in (MIN_TIME, MAX_TIME) else min(watermark + self.by, EVENT_TIME_MAX)


def build(operator: Delay, context: BuildContext) -> DelayOperator:
    return DelayOperator(operator)
