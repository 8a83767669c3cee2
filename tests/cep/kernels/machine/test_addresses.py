"""A kernel calls another by address, which finds its arrays there: in machine code as interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cep.kernels.jit import apart, interpreted, kernel
from cep.kernels.machine.addresses import (
    CALLED,
    NOT_CALLED,
    Callee,
    Handed,
    call_of,
    float64s_at,
    int32s_at,
    int64s_at,
    uint8s_at,
    written_float64s_at,
    written_int64s_at,
    written_lines_at,
)

DTYPES = ("int64", "int32", "float64", "uint8", "int64", "float64", "int64")


@kernel(CALLED, on_demand=True)
def reads_and_writes(a: int, b: int, c: int, d: int, arrays: Any) -> Any:
    whole, small, real, byte = int64s_at(arrays, 0), int32s_at(arrays, 1), float64s_at(arrays, 2), uint8s_at(arrays, 3)
    out, real_out, lines = written_int64s_at(arrays, 4), written_float64s_at(arrays, 5), written_lines_at(arrays, 6, 3)
    out[a] = whole[a] + small[a] + byte[a]
    real_out[a] = real[a] * b
    for k in range(3):
        lines[c, k] += d + k
    return len(whole) + 10 * len(out) + 100 * len(lines)


@kernel(CALLED, on_demand=True)
def gives_the_first(a: int, b: int, c: int, d: int, arrays: Any) -> Any:
    return int64s_at(arrays, 0)[0]


@apart
def apart_call(handed: Any, i: int) -> Any:
    return call_of(handed, 1, i, i + 1, i % 2, 1000)


@kernel("int64(int64, int64)", on_demand=True)
def calls_for_each(handed: Any, n: int) -> Any:
    total = 0
    for i in range(n):
        total += apart_call(handed, i) * int64s_at(handed, 0)[i]
    return total


def _arrays() -> list[np.ndarray]:
    whole, small, real, byte = np.arange(5) << 40, np.arange(5, dtype=np.int32) - 2, np.linspace(0, 1, 5), np.full(5, 255, np.uint8)
    return [whole, small, real, byte, np.zeros(6, np.int64), np.zeros(5), np.zeros((2, 3), np.int64)]


def _run(arrays: list[np.ndarray]) -> tuple[int, list[list[Any]]]:
    called = Callee.of(reads_and_writes, arrays, DTYPES)
    handed = Handed.of([np.ones(5, np.int64), called])
    return calls_for_each(handed.arrays, 5), [array.tolist() for array in arrays]


def test_a_kernel_that_is_called_finds_its_arrays() -> None:
    arrays = _arrays()
    answer, left = _run(arrays)
    assert answer == 5 * (5 + 60 + 200)
    assert left[4] == [253 + k + (k << 40) for k in range(5)] + [0]
    assert left[5] == [0.0, 0.5, 1.5, 3.0, 5.0]
    assert left[6] == [[3000, 3003, 3006], [2000, 2002, 2004]]
    with interpreted():
        assert _run(_arrays()) == (answer, left)


def test_frames_of_messages_may_stand_anywhere() -> None:
    frame = np.frombuffer(b"x" + np.arange(3, 6).tobytes(), np.uint8)[1:].view(np.int64)
    assert not frame.flags.aligned
    called = Callee.of(gives_the_first, [frame], ["int64"])
    handed = Handed.of([np.array([1, 2]), called])
    assert calls_for_each(handed.arrays, 2) == 9


@pytest.mark.parametrize("wrong", [np.zeros(5), np.zeros(5, np.int32), np.zeros(10, np.int64)[::2]])
def test_arrays_of_another_type_are_refused(wrong: np.ndarray) -> None:
    with pytest.raises(TypeError, match=r"kernel 'reads_and_writes', array 0: expected int64, contiguous, got "):
        Callee.of(reads_and_writes, [wrong, *_arrays()[1:]], DTYPES)


def test_as_many_arrays_as_types() -> None:
    with pytest.raises(ValueError, match="longer"):
        Callee.of(reads_and_writes, _arrays()[:-1], DTYPES)


def test_what_is_never_called_has_no_address() -> None:
    assert NOT_CALLED.function == 0
    handed = Handed.of([np.ones(1, np.int64), NOT_CALLED])
    assert calls_for_each(handed.arrays, 0) == 0


@pytest.mark.parametrize("wrong", [np.zeros(5), np.zeros(10, np.int64)[::2]])
def test_what_is_handed_on_is_of_int64s(wrong: np.ndarray) -> None:
    with pytest.raises(TypeError, match=r"array 1: expected int64, contiguous, got "):
        Handed.of([np.ones(5, np.int64), wrong])
