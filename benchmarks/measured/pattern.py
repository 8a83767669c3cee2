"""A pattern over batches in memory: its row-alone conditions, the numbers of groups, and the loop that finds matches, of which the values
of the first and the last row are added up. The clock runs while rows are taken; what comes out is no batch here.

`python -m benchmarks.measured.pattern together|apart --records N [--ways]`
"""

from __future__ import annotations

import argparse
import time
from contextlib import nullcontext

import numpy as np

from benchmarks.measured.trailing import BATCH_ROWS, KEYS, drawn
from benchmarks.metering import say
from cep.compile.chain.chain import arguments_of
from cep.compile.patterns.choice import each_way_apart, matcher_of
from cep.compile.patterns.cohorts import Cohorts
from cep.compile.patterns.conditions import Conditions, compile_conditions
from cep.compile.patterns.ways import Ways
from cep.elements import Batch
from cep.kernels.column import Column
from cep.kernels.tables.group_numbers import GroupNumbers
from cep.model.expr import col
from cep.model.operators import Pattern, PatternWays
from cep.model.patterns.parts import bare, definitions, event
from cep.model.patterns.rows import row
from cep.model.schema import INT64, Schema
from instance_manager import own_memory

#: The C program's: `benchmarks/references/pattern.c`.
KINDS, VALUES, WITHIN_US = 3, 1_000, 100_000
SCHEMA = Schema.of({"t": "timestamp[us]", "k": "int64", "e": "int64", "v": "int64"})


def batches(records: int) -> list[Batch]:
    number = np.arange(records, dtype=np.uint64) * np.uint64(3)
    key, kind, value = (drawn(number + np.uint64(k)) for k in range(3))
    times = np.arange(records)
    given = {"k": key % np.uint64(KEYS), "e": kind % np.uint64(KINDS), "v": value % np.uint64(VALUES)}
    columns = {"t": Column(INT64, times), **{name: Column(INT64, values.astype(np.int64)) for name, values in given.items()}}
    return [Batch(columns, times).take(slice(at, at + BATCH_ROWS)) for at in range(0, records, BATCH_ROWS)]


def asked(question: str) -> PatternWays:
    """The C program's pattern of that name."""
    a, b, c = (event(name, col("e") == kind) for kind, name in enumerate("abc"))
    if question == "apart":
        b = event("b", (col("e") == 1) & (col("v") > 2 * row("a")["v"]))
    part, after = (a.then(b).then(c), "past_last") if question == "together" else (a.then(b), "to_next")
    defined = tuple(definitions(part).items())
    return Pattern("p", ("s",), defined, bare(part), ("k",), WITHIN_US, after=after, measures=(("v", row("a")["v"]),)).finding


class PatternRun:
    """Rows taken one batch after the other."""

    def __init__(self, operator: PatternWays, ways: bool) -> None:
        with each_way_apart() if ways else nullcontext():
            self.conditions: Conditions = compile_conditions(operator, SCHEMA, None, "p")
            self.matcher: Ways | Cohorts = matcher_of(operator, self.conditions.loop)
        self.numbers = GroupNumbers((SCHEMA["k"],))
        self.rows = self.matches = self.sum = 0

    def take(self, batch: Batch, values: np.ndarray) -> None:
        """`values`: `v` of all rows so far."""
        alone, n = self.conditions.alone, len(batch)
        made = alone.chain.process(batch.columns, n, 0).columns
        bits = np.zeros(n, np.int64)
        for number, name in zip(alone.variables, alone.names, strict=True):
            bits |= made[name].values.astype(np.int64) << number
        groups = self.numbers.of(batch.columns, n)
        self.matcher.has_groups(len(self.numbers))
        arguments = arguments_of(batch.columns, self.conditions.loop.inputs)
        for emitted in self.matcher.take(groups, batch.time, self.rows, bits, 0, arguments):
            if emitted is not None:
                self.matches += len(emitted)
                ends = np.cumsum(np.bincount(emitted.rows[:, 0], minlength=len(emitted)))
                begins = np.concatenate([[0], ends[:-1]])
                self.sum += int(values[emitted.rows[begins, 1]].sum() + values[emitted.rows[ends - 1, 1]].sum())
        self.rows += n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", choices=("together", "apart"))
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--ways", action="store_true", help="each way of each start by itself, though starts go on together")
    given = parser.parse_args()
    own_memory.take()  # as the engine's process does
    rows, operator = batches(given.records), asked(given.question)
    values = np.concatenate([batch.columns["v"].values for batch in rows])
    PatternRun(operator, given.ways).take(rows[0], values)  # so that its kernels are there
    run, cpu_ns = PatternRun(operator, given.ways), 0
    for batch in rows:
        start = time.process_time_ns()
        run.take(batch, values)
        cpu_ns += time.process_time_ns() - start
    used = {"cpu_s": cpu_ns / 1e9, "records_per_cpu_s": given.records / cpu_ns * 1e9}
    say(records=given.records, answers=run.matches, sum=run.sum, state_bytes=run.matcher.bytes, **used)


if __name__ == "__main__":
    main()
