"""Windows of few rows each: a row a second, and windows of a second, so that what a window costs by itself is all there is. Each kind of
operator in this process, from what is sent to what comes out; SESSION, whose windows were never made one by one, beside them.

`python -m benchmarks.measured.small_windows [--rows N] [--seconds S] [KIND ...]`: CPU time of N rows, a row each S seconds of event time,
the second of two runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from numa_cep import CUMULATE, SESSION, TIME, UNBOUNDED, Query, avg, count, stream, sum_, testing
from numa_cep.testing import Run

LEFT = stream("left", k="int64", v="float64", ts="timestamp[ms]", event_time="ts", disorder="0s")
RIGHT = stream("right", k="int64", w="float64", ts="timestamp[ms]", event_time="ts", disorder="0s")
SENT, BEGIN_MS, KEYS = 5_000, 1_700_000_000_000, 100
MADE = {"c": count(), "s": sum_("v"), "a": avg("v")}

KINDS: dict[str, Callable[[], Query]] = {
    "session": lambda: _source().aggregate("o", SESSION("500ms"), MADE),
    "tumbling": lambda: _source().aggregate("o", TIME("1s"), MADE),
    "tumbling by key": lambda: _source().aggregate("o", TIME("1s"), MADE, by="k"),
    "sliding": lambda: _source().aggregate("o", TIME("10s", "1s"), MADE),
    "cumulating": lambda: _source().aggregate("o", CUMULATE("1s", "60s"), MADE),
    "periodic": lambda: _source().aggregate("o", UNBOUNDED(every="1s", ttl=None), MADE),
    "sort": lambda: _source().sort("o", TIME("1s"), order="v"),
    "top": lambda: _source().top("o", 3, TIME("1s"), order="v"),
    "keep last": lambda: _source().deduplicate("o", by="k", keep="last", window=TIME("1s")),
    "join": lambda: _source().join("o", RIGHT, TIME("1s"), on=("k", "k"), prefix="right_"),
}


def _source() -> Query:
    return Query("small-windows").source(LEFT)


def table(value: str, rows: int, seconds: float) -> pa.Table:
    drawn = np.random.default_rng(1)
    times = (np.arange(rows) * 1_000 * seconds).astype(np.int64) + BEGIN_MS
    columns = {"k": drawn.integers(0, KEYS, rows), value: drawn.random(rows)}
    return pa.table({**columns, "ts": pa.array(times).cast(pa.timestamp("ms"))})


def measured(run: Run, tables: dict[str, pa.Table], rows: int) -> float:
    """CPU seconds."""
    began = time.process_time()
    for start in range(0, rows, SENT):
        for name, each in tables.items():
            if name in run.streams:
                run.send(name, each.slice(start, SENT))
    run.close()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; all of them by default")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=1.0)
    asked = parser.parse_args()
    if wrong := set(asked.kinds) - set(KINDS):
        parser.error(f"kinds are {', '.join(KINDS)}; got {', '.join(sorted(wrong))}")
    tables = {"left": table("v", asked.rows, asked.seconds), "right": table("w", asked.rows, asked.seconds)}
    print(f"{'':16}{'us a row':>10}{'us an answer':>14}{'answers':>10}")
    for kind in asked.kinds or KINDS:
        for _ in range(2):
            with testing.run(KINDS[kind]().output("out"), compiled=True) as run:
                cpu = measured(run, tables, asked.rows)
                answers = len(run.answers("out"))
        print(f"{kind:16}{cpu / asked.rows * 1e6:10.2f}{cpu / max(answers, 1) * 1e6:14.2f}{answers:10}", flush=True)


if __name__ == "__main__":
    main()
