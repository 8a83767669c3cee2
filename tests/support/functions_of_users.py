"""Functions as a user writes them, for the tests of users' functions: a module that clusters are started with."""

from __future__ import annotations

import math
import os.path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

path_exists = os.path.exists  # another module's: not ours to call


# --- per tuple -------------------------------------------------------------------------------------------------------


def ratio(a: int, b: int) -> float:
    """Compiled; fails where b is 0."""
    return a / b


def half(x: float) -> float | None:
    """Compiled; None for odd whole numbers."""
    return x / 2 if x % 2 == 0 else None


def is_late(at_us: int) -> bool:
    return at_us % 1_000_000 > 500_000


def next_second(at_us: int) -> int:
    return (at_us // 1_000_000 + 1) * 1_000_000


def large(x: int) -> int:
    """Beyond int32."""
    return x * 1_000_000_000


def picky(x: int) -> int:
    if x % 3 == 0:
        raise ValueError("a multiple of three")
    return x + 1


def wave(x: float) -> float:
    return math.sin(x) * math.exp(-x * x)


def shout(text: str) -> str:
    """Text is not compiled."""
    return text.upper() + "!"


def through_dict(x: int) -> float:
    """Numba does not take it."""
    return {"x": x}.get("x", 0) + _untyped[0]


_untyped: list[Any] = [0.5, "text"]


def of_two_kinds(x: int) -> Any:
    """Not always what is declared; not compiled either."""
    found: list[Any] = [x, str(x)]
    return found[x % 2]


def three() -> int:
    return 3


# --- per batch -------------------------------------------------------------------------------------------------------


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """One row for each; fails where n is 13."""
    if pc.any(pc.equal(batch["n"], 13)).as_py():
        raise ValueError("thirteen")
    return pa.record_batch({"ip": batch["ip"], "twice": pc.multiply(batch["n"], 2)})


def repeated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """As many rows as n says, in the opposite order."""
    rows = [row for row, n in enumerate(batch["n"].to_pylist()) for _ in range(n)][::-1]
    return pa.record_batch({"n": batch["n"].take(pa.array(rows, pa.int64())), "__row": pa.array(rows, pa.int64())})


def wrong_count(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"n": batch["n"].slice(1)})


def wrong_schema(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"n": batch["n"].cast(pa.string())})


def wrong_row(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"n": batch["n"], "__row": pa.array(np.arange(len(batch)) + 1)})


def no_batch(batch: pa.RecordBatch) -> Any:
    return batch.to_pylist()


# --- with state ------------------------------------------------------------------------------------------------------


def rising(state: Any, n: int) -> tuple[Any, tuple[int, int] | None]:
    """How often n has risen, when it has; fails at 13, having spoiled the state that it was given."""
    if state is None:
        return {"last": n, "times": 0}, None
    times = state["times"] + (n > state["last"])
    answer = (n, times) if n > state["last"] else None
    state["last"] = state["times"] = -1
    if n == 13:
        raise ValueError("thirteen")
    return {"last": n, "times": times}, answer


def remembers_set(state: Any, n: int) -> tuple[Any, tuple[int]]:
    return (state or set()) | {n}, (n,)


def remembers_all(state: Any, n: int) -> tuple[Any, tuple[int]]:
    kept = [*(state or []), n]
    return kept, (len(kept),)


def no_pair(state: Any, n: int) -> Any:
    return n


# --- aggregates ------------------------------------------------------------------------------------------------------


class Longest:
    """The longest run of equal values."""

    def init(self) -> Any:
        return (None, 0, 0)

    def add(self, state: Any, n: int) -> Any:
        last, run, longest = state
        run = run + 1 if n == last else 1
        return (n, run, max(run, longest))

    def result(self, state: Any) -> int:
        if state[0] == 13:
            raise ValueError("thirteen")
        return int(state[2])


class Picky:
    """The sum of numbers, of which it takes no 13."""

    def init(self) -> int:
        return 0

    def add(self, state: int, n: int) -> int:
        if n == 13:
            raise ValueError("thirteen")
        return state + n

    def result(self, state: int) -> int:
        return state


class WeightedMean:
    """With a merge, which other engines would use."""

    def init(self) -> tuple[float, float]:
        return (0.0, 0.0)

    def add(self, state: tuple[float, float], value: float, weight: float) -> tuple[float, float]:
        return (state[0] + value * weight, state[1] + weight)

    def merge(self, a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
        return (a[0] + b[0], a[1] + b[1])

    def result(self, state: tuple[float, float]) -> float | None:
        return state[0] / state[1] if state[1] else None
