"""A pattern over batches in memory, as an instance has it at work: rows are held until the watermark has passed them, judged, numbered
by group and taken; matches come out as batches, of which the values of the first and the last row are added up. The clock runs while rows
are taken.

`absent`: an a, then nothing for an hour; each row begins one. The clock runs for the rows, and then for the hour that passes,
of whose matches a second the figure is.

`crowded-together`, `crowded-apart`: an a, and what never comes behind it, of which each kind of loop has to do with all open starts.

`repeated`: an a, then as many b as come, and what never comes behind them: time ends each start behind all the b that it took.

`python -m benchmarks.measured.pattern QUESTION --records N [--ways] [--within ROWS] [--keys N]`
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from benchmarks.measured.trailing import BATCH_ROWS, KEYS, drawn
from benchmarks.metering import say
from cep.compile.patterns.choice import each_way_apart
from cep.compile.patterns.conditions import compile_conditions
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.patterns.pattern import PatternOperator
from cep.dataflow.state.hold import Hold
from cep.elements import Batch
from cep.kernels.column import Column
from cep.model.expr import col
from cep.model.operators import Pattern, PatternWays
from cep.model.patterns.parts import PatternPart, Var, bare, definitions, event, walk
from cep.model.patterns.refs import of_match
from cep.model.patterns.rows import row
from cep.model.schema import INT64, Schema
from instance_manager import own_memory

#: The C program's: `benchmarks/references/pattern.c`.
KINDS, VALUES, WITHIN_US, OCTAVES, LIMIT = 3, 1_000, 100_000, 14, 1_000_000
QUESTIONS = ("together", "apart", "crowded-together", "crowded-apart", "repeated", "all", "told", "absent")
SCHEMA = Schema.of({"t": "timestamp[us]", "k": "int64", "e": "int64", "v": "int64"})


def batches(records: int, keys: int | None = None, skewed: bool = False, kinds: int = KINDS) -> list[Batch]:
    """`skewed`: keys are in OCTAVES of twice as many each, of which each is drawn as often, so that the n-th has about 1/n of the rows."""
    number = np.arange(records, dtype=np.uint64) * np.uint64(3)
    key, kind, value = (drawn(number + np.uint64(k)) for k in range(3))
    times = np.arange(records)
    octave = np.uint64(1) << key % np.uint64(OCTAVES)
    chosen = octave - np.uint64(1) + (key >> np.uint64(8)) % octave if skewed else key % np.uint64(keys or KEYS)
    given = {"k": chosen, "e": kind % np.uint64(kinds), "v": value % np.uint64(VALUES)}
    columns = {"t": Column(INT64, times), **{name: Column(INT64, values.astype(np.int64)) for name, values in given.items()}}
    rows = Batch(columns, times, np.column_stack([np.zeros(records, np.int64), times]), in_order=True)
    return [rows.take(slice(at, at + BATCH_ROWS)) for at in range(0, records, BATCH_ROWS)]


def part_of(question: str) -> tuple[PatternPart, str]:
    """The pattern of that name, which is the C program's if that has it, and how it goes on behind a match."""
    a, b, c = (event(name, col("e") == kind) for kind, name in enumerate("abc"))
    match question:
        case "together":
            return a.then(b).then(c), "past_last"
        case "apart":
            return a.then(event("b", (col("e") == 1) & (col("v") > 2 * row("a")["v"]))), "to_next"
        case "crowded-together":
            return a.then(b).then(event("c", (col("e") == 2) & (col("v") < 0))), "to_next"
        case "crowded-apart":
            return a.then(event("b", (col("e") == 1) & (col("v") < row("a")["v"] - VALUES))), "to_next"
        case "repeated":
            return a.then(b.one_or_more()).then(event("c", (col("e") == 2) & (col("v") < 0))), "to_next"
        case "absent":
            return event("a").absent(event("d", col("e") < 0), for_="1h"), "past_last"
        case "all":
            return a.then_any(b).then_any(event("c", (col("e") == 2) & (col("v") < 0))), "past_last"
    few = [event(name, (col("e") == kind) & (col("v") < 20)) for kind, name in enumerate("ab")]
    return few[0].then_any(few[1]).then_any(c), "past_last"


def asked(question: str, within: int) -> PatternWays:
    """Of all matches those of any rows in order, of which there is none, or are many; of others the first."""
    part, after = part_of(question)
    every = question in ("all", "told")
    defined, taken = tuple(definitions(part).items()), [each.name for each, _ in walk(part) if isinstance(each, Var)]
    measures = (("first", row("a")["v"]), ("last", row(taken[-1])["v"]))
    by, matches = ((), "all") if every else (("k",), "first")
    return Pattern("p", ("s",), defined, bare(part), by, within, after=after, matches=matches, measures=measures, limit=LIMIT).finding


class PatternRun:
    """Rows taken one batch after the other."""

    def __init__(self, operator: PatternWays, ways: bool) -> None:
        conditions = compile_conditions(operator, SCHEMA, None, "p")
        with each_way_apart() if ways else nullcontext():
            hold = Hold(SCHEMA, 2, ties=False)
            self.operator = PatternOperator(operator, conditions, [SCHEMA], None, hold, 1 << 40, lambda: 0, DeadLetters())
        self.matches = self.sum = 0

    def take(self, batch: Batch) -> None:
        for _ in self.operator.on_batch(batch, 0):
            """Nothing comes out before time passes."""
        self.let_pass(int(batch.time[-1]) + 1)

    def let_pass(self, watermark: int) -> None:
        for found in self.operator.on_watermark(watermark):
            self.matches += len(found)
            self.sum += sum(int(found.columns[of_match(ref)].values.sum()) for ref in self.operator.operator.refs if len(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", choices=QUESTIONS)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--ways", action="store_true", help="each way of each start by itself, though starts go on together")
    parser.add_argument("--within", type=int, default=WITHIN_US, help="µs, of which each has a row")
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--skewed", action="store_true", help="the n-th key has about 1/n of the rows")
    given = parser.parse_args()
    own_memory.take()  # as the engine's process does
    rows, operator = batches(given.records, given.keys, given.skewed), asked(given.question, given.within)
    PatternRun(operator, given.ways).take(rows[0])  # so that its kernels are there
    run, cpu_ns = PatternRun(operator, given.ways), 0
    for batch in rows:
        cpu_ns += _cpu_ns(run.take, batch)
    used = {"cpu_s": cpu_ns / 1e9, "records_per_cpu_s": given.records / cpu_ns * 1e9}
    if given.question == "absent":
        bytes_open, fired_ns = run.operator.state_bytes, _cpu_ns(run.let_pass, 1 << 60)
        used |= {"taken_ns": cpu_ns / given.records, "bytes_open": bytes_open, "fired_per_cpu_s": run.matches / fired_ns * 1e9}
    say(records=given.records, answers=run.matches, sum=run.sum, state_bytes=run.operator.state_bytes, **used)


def _cpu_ns(take: Callable[[Any], None], what: Any) -> int:
    start = time.process_time_ns()
    take(what)
    return time.process_time_ns() - start


if __name__ == "__main__":
    main()
