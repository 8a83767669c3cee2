"""Trailing windows over batches in memory: count, sum, least and greatest of the ten minutes up to each row. The clock runs while rows are
taken.

`python -m benchmarks.measured.trailing --records N`
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.metering import say
from cep.compile.aggregate.spec import AggregateSpec
from cep.compile.windows.trailing import TrailingState
from cep.elements import Batch
from cep.kernels.column import Column
from cep.model.functions import count, max_, min_, sum_
from cep.model.operators import Aggregate
from cep.model.schema import INT64, Schema
from cep.model.windows import TRAILING, UNBOUNDED
from instance_manager import own_memory

BATCH_ROWS = 1 << 16
#: The C program's: `benchmarks/references/limit.c`.
KEYS, STEP_US = 10_000, 1_200
#: Field of an answer -> what it is multiplied by before all are added up.
FUNCTIONS = {"counts": (count(), 1), "sums": (sum_("v"), 3), "least": (min_("v"), 5), "greatest": (max_("v"), 7)}


def drawn(x: np.ndarray) -> np.ndarray:
    """The same numbers as `drawn` of the C program, uint64[n]."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = x ^ (x >> np.uint64(31))
    return mixed


def batches(records: int) -> list[Batch]:
    number = np.arange(records, dtype=np.uint64) * np.uint64(3)
    key, step, value = (drawn(number + np.uint64(k)) for k in range(3))
    keys, times = (key % np.uint64(KEYS)).astype(np.int64), np.cumsum(step % np.uint64(STEP_US)).astype(np.int64)
    values = (value % np.uint64(2_000_001)).astype(np.int64) - 1_000_000
    columns = {"k": Column(INT64, keys), "v": Column(INT64, values)}
    return [Batch(columns, times).take(slice(at, at + BATCH_ROWS)) for at in range(0, records, BATCH_ROWS)]


def state() -> TrailingState:
    functions = tuple((name, function) for name, (function, _) in FUNCTIONS.items())
    aggregate = Aggregate("last", "rows", UNBOUNDED(ttl=None), ("k",), functions)
    spec = AggregateSpec.of(aggregate, Schema.of({"k": "int64", "v": "int64"}), frozenset(), "whole")
    return TrailingState(spec, "last", TRAILING("10m"), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, required=True)
    asked = parser.parse_args()
    own_memory.take()  # as the engine's process does
    given, running = batches(asked.records), state()
    for _ in state().take(given[0]):  # so that its kernels are there
        pass
    cpu_ns, total = 0, 0
    for batch in given:
        start = time.process_time_ns()
        found = [answers for answers in running.take(batch) if answers is not None]
        cpu_ns += time.process_time_ns() - start
        for answers in found:
            total += sum(times * int(answers.columns[name].values.sum()) for name, (_, times) in FUNCTIONS.items())
    used = {"cpu_s": cpu_ns / 1e9, "records_per_cpu_s": asked.records / cpu_ns * 1e9}
    say(records=asked.records, sum=total % 2**64, state_bytes=running.bytes, **used)


if __name__ == "__main__":
    main()
