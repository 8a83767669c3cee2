"""`python -m benchmarks elastic`: a subquery gets other numbers of instances while rows flow; how long nothing comes out, and what does.

Rules:
1. A program publishes rows at a rate; SQ2 counts them for each key since the beginning, which is the state, and answers every row; SQ3 adds
   the answers up in windows of 100 ms. The query tells its answers at once, so a window comes out when it has closed. Before anything is
   measured there has been a row of every key.
2. A pause is the longest time without a new answer between the request to scale and two intervals behind its end; so the 100 ms between two
   answers of an undisturbed query are in it. `running` is from the request until the query runs again, as `cep scale` waits for it.
3. What has come out is, window for window, what the rows ask for, counted apart with numpy.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from benchmarks.faults.recoveries import AnswerReader
from benchmarks.metering import stopwatch
from cep.errors import ClusterError
from driver import TIME, UNBOUNDED, LocalCluster, Publisher, Query, Running, count, stream, sum_, window_start

NAME, WINDOW_MS, BATCH_S, FILL_ROWS = "elastic", 100, 0.02, 10_000
HANGS_S = 120.0
BAR_S = 0.5
KEY_BYTES = 24  # of a key in a checkpoint


def query(checkpoint: str, first: int) -> Query:
    read = stream(f"{NAME}.in", t="timestamp[ms]", key=int, event_time="t", disorder="10ms")
    made = Query(NAME).source(read).aggregate("running", UNBOUNDED(ttl=None), by="key", n=count())
    made = made.aggregate("window", TIME(f"{WINDOW_MS}ms"), start=window_start(), rows=count(), total=sum_("n"))
    sizes = {"SQ1": 1, "SQ2": first, "SQ3": 1}
    return made.output(f"{NAME}.out").options(recover="at-once", checkpoint=checkpoint, parallelism=sizes, pre_aggregation="off")


def expected(rows: int, keys: int, rate: int) -> np.ndarray:
    """int64[n, 3]: start of the window in ms, its rows, and what their counts come to."""
    i = np.arange(rows, dtype=np.int64)
    window, counted = i * 1000 // rate // WINDOW_MS, i // keys + 1
    n, total = np.bincount(window), np.bincount(window, weights=counted.astype(np.float64)).astype(np.int64)
    return np.stack([np.arange(len(n)) * WINDOW_MS, n, total], axis=1)[n > 0]


def answers(reader: AnswerReader) -> np.ndarray:
    table = pa.Table.from_batches(reader.batches)
    unit = {"ms": 1, "us": 1000, "ns": 1_000_000}[table.schema.field("start").type.unit]
    start, rows, total = (table[name].cast(pa.int64()).to_numpy() for name in ("start", "rows", "total"))
    found = np.stack([start // unit, rows, total], axis=1)
    ordered: np.ndarray = found[np.argsort(found[:, 0], kind="stable")]
    return ordered


class PacedRows:
    """Publishes rows, at once until each key has had one, then at the rate, until it is told to end."""

    def __init__(self, out: Publisher, keys: int, rate: int) -> None:
        self.out, self.keys, self.rate = out, keys, rate
        self.rows, self.error = 0, ""
        self.filled, self.ends = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            while self.rows < self.keys:
                self._send(min(FILL_ROWS, self.keys - self.rows))
            self.filled.set()
            began, first = time.monotonic(), self.rows
            while not self.ends.wait(BATCH_S):
                due = first + int((time.monotonic() - began) * self.rate)
                while self.rows < due:
                    self._send(min(FILL_ROWS, due - self.rows))
        except Exception as error:  # told by the one that waits
            self.error = repr(error)
            self.filled.set()

    def _send(self, n: int) -> None:
        i = np.arange(self.rows, self.rows + n, dtype=np.int64)
        self.out.send(pa.table({"t": pa.array(i * 1000 // self.rate, pa.timestamp("ms")), "key": i % self.keys}))
        self.rows += n


@dataclass(frozen=True)
class StepPause:
    before: int
    after: int
    state_bytes: int
    pause_s: float
    running_s: float

    def __str__(self) -> str:
        took = f"nothing new for {self.pause_s:.2f} s, running again after {self.running_s:.2f} s"
        return f"{self.before} → {self.after} instances, checkpoints of {self.state_bytes / 1e6:.1f} MB: {took}"


@dataclass
class ElasticReport:
    steps: list[StepPause] = field(default_factory=list)
    usual_s: float = 0.0  # the longest time without an answer while nothing is scaled
    windows: int = 0
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        yield from map(str, self.steps)
        pauses = [each.pause_s for each in self.steps]
        p50, worst = np.percentile(pauses, [50, 100]) if pauses else (0.0, 0.0)
        held = "below" if p50 < BAR_S else "NOT below"
        yield f"{len(pauses)} steps: pause p50 {p50:.2f} s ({held} {BAR_S:g} s), worst {worst:.2f} s; undisturbed {self.usual_s:.2f} s"
        yield f"{self.windows:,} answers compared{'' if self.wrong else ': equal'}"
        yield from (f"WRONG: {each}" for each in self.wrong)


class FlowingQuery:
    """One query from its start to its end, while rows flow."""

    def __init__(self, cluster: LocalCluster, made: Query, keys: int, rate: int) -> None:
        self.cluster, self.keys, self.rate = cluster, keys, rate
        self.running: Running = cluster.deploy(made, start=False)
        self.reader = AnswerReader(self.running, f"{NAME}.out")
        self.running.start()

    @contextmanager
    def flowing(self) -> Iterator[PacedRows]:
        """When there has been a row of every key; behind the block until the last answer."""
        with self.cluster.publisher(f"{NAME}.in") as out:
            rows = PacedRows(out, self.keys, self.rate)
            rows.filled.wait()
            yield rows
            rows.ends.set()
            rows.thread.join()
        self.reader.thread.join(HANGS_S)

    def settle(self) -> None:
        """Until a checkpoint is committed that was asked for from now on, and answers come as they are made. Raises ClusterError: the query
        has failed."""
        number, began = self.last_commit, time.monotonic()
        while self.last_commit == number and time.monotonic() - began < HANGS_S:
            if self.reader.error is not None:
                raise ClusterError(f"there is nothing to measure any more: {self.reader.error}")
            time.sleep(0.05)
        while not self.reader.arrived or time.monotonic() - self.reader.arrived[-1] > 2 * WINDOW_MS / 1000:
            time.sleep(0.05)
            if time.monotonic() - began > HANGS_S or self.reader.ended:
                return

    @property
    def last_commit(self) -> object:
        return (self.checkpoints["last"] or {}).get("number")

    @property
    def state_bytes(self) -> int:
        return int((self.checkpoints["last"] or {"bytes": 0})["bytes"])

    @property
    def checkpoints(self) -> dict[str, Any]:
        return dict(self.running.status()["recovery"]["checkpoints"])

    def gap(self, began: float, ended: float) -> float:
        """The longest time between two answers that touches that span."""
        at = [*self.reader.arrived, ended]
        return max(after - max(before, began) for before, after in pairwise(at) if began <= after <= ended)

    def wrong(self, rows: PacedRows) -> tuple[int, str]:
        """How many answers were compared, and what is wrong with them."""
        error = rows.error or self.reader.error or (None if self.reader.ended else f"it hangs: {self.running.status()}")
        if error:
            return 0, str(error)
        found, wanted = answers(self.reader), expected(rows.rows, self.keys, self.rate)
        same = np.array_equal(found, wanted)
        return len(found), "" if same else f"expected {len(wanted):,} answers over {rows.rows:,} rows, got {len(found):,}, or others"


class ElasticRun:
    """Steps of one query."""

    def __init__(self, flow: FlowingQuery, steps: Sequence[int], say: Callable[[str], None]) -> None:
        self.flow, self.steps, self.say = flow, steps, say
        self.result = ElasticReport()

    def run(self, rounds: int, rest_s: float) -> ElasticReport:
        with self.flow.flowing() as rows:
            self.flow.settle()
            began = time.monotonic()
            time.sleep(rest_s)
            self.result.usual_s = self.flow.gap(began, time.monotonic())
            for before, after in self._sizes(rounds):
                self.result.steps.append(self._scale(before, after, rest_s))
                self.say(str(self.result.steps[-1]))
                self.flow.settle()
        self.result.windows, wrong = self.flow.wrong(rows)
        self.result.wrong += [wrong] * bool(wrong)
        return self.result

    def _sizes(self, rounds: int) -> Iterator[tuple[int, int]]:
        sizes = [*self.steps] * rounds
        return (step for step in pairwise(sizes) if step[0] != step[1])

    def _scale(self, before: int, after: int, rest_s: float) -> StepPause:
        size, began = self.flow.state_bytes, time.monotonic()
        self.flow.running.scale({"SQ2": after})
        running_s = time.monotonic() - began
        time.sleep(rest_s)
        return StepPause(before, after, size, self.flow.gap(began, time.monotonic()), running_s)


def keys_of(state_mb: int) -> int:
    """How many make a checkpoint of about so many megabytes."""
    return max(100, state_mb * 1_000_000 // KEY_BYTES)


def command(
    steps: Annotated[str, typer.Option(help="Numbers of instances, one after the other.")] = "1,2,4,3",
    rounds: Annotated[int, typer.Option(min=1, help="So often.")] = 3,
    state_mb: Annotated[int, typer.Option(min=0, help="About what the state takes.")] = 10,
    rate: Annotated[int, typer.Option(min=1000, help="Rows a second.")] = 20_000,
    checkpoint: Annotated[str, typer.Option(help="The interval; the budget of checkpoints may make it longer.")] = "1s",
    instances: Annotated[int, typer.Option(min=1, help="Instance managers.")] = 2,
    rest_s: Annotated[float, typer.Option(min=0.5, help="How long it is looked at behind each step.")] = 3.0,
) -> None:
    """Scales a subquery while rows flow. Leaves status 1 if an answer is missing, comes twice, or is another."""
    say = stopwatch()
    sizes = [int(each) for each in steps.split(",")]
    with LocalCluster(instances=instances) as cluster:
        flow = FlowingQuery(cluster, query(checkpoint, sizes[0]), keys_of(state_mb), rate)
        result = ElasticRun(flow, sizes, say).run(rounds, rest_s)
    print("\n".join(result.lines()))
    if result.wrong:
        raise typer.Exit(1)
