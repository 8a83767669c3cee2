"""Words and blocks of bytes: machine code does what the plain Python says, and that is what bytes of Python do.

Tests `memory.py`, `instructions.py`.
"""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from cep.kernels.jit import interpreted, kernel
from cep.kernels.machine.libm import OF_ONE, OF_TWO
from cep.kernels.machine.memory import (
    BLOCK,
    copy_bytes,
    count_bits,
    equal_bytes,
    high_block,
    load_word,
    lowest_bit,
    match_block,
    prefetch,
    store_word,
)


@kernel("void(uint8[:], int64, int64, int64, uint8, uint64[:])", on_demand=True)
def looks(data: np.ndarray, at: int, other: int, length: int, byte: Any, out: np.ndarray) -> None:
    prefetch(data, other)
    out[0] = load_word(data, at)
    out[1] = np.uint64(equal_bytes(data, at, data, other, length))
    out[2] = match_block(data, at, byte)
    out[3] = high_block(data, at)
    out[4] = np.uint64(lowest_bit(out[2]))
    out[5] = np.uint64(count_bits(out[2]))
    copy_bytes(data, at, data, other, length)
    store_word(data, at, out[2])


@pytest.mark.parametrize("mode", [interpreted, nullcontext], ids=["interpreted", "compiled"])
def test_they_do_what_bytes_of_python_do(mode: Any) -> None:
    choose = random.Random(7)
    for _ in range(60):
        plain = bytearray(choose.choice((b"ab", b"\n\n", b"\xff\xff", b"\x80\x00")) * 100)
        for _ in range(choose.randrange(6)):
            plain[choose.randrange(200)] = choose.choice((10, 255, 97))
        at, length, byte = choose.randrange(60), choose.choice((0, 1, 7, 8, 9, 63)), choose.choice((10, 255, 97))
        other = 130 + choose.randrange(7)
        data, out = np.frombuffer(bytes(plain), np.uint8).copy(), np.zeros(6, np.uint64)
        with mode():
            looks(data, at, other, length, np.uint8(byte), out)
        block = plain[at : at + BLOCK]
        matches = sum(1 << i for i, each in enumerate(block) if each == byte)
        wanted = [
            int.from_bytes(plain[at : at + 8], "little"),
            plain[at : at + length] == plain[other : other + length],
            matches,
            sum(1 << i for i, each in enumerate(block) if each > 127),
            next((i for i in range(64) if matches >> i & 1), 64),
            matches.bit_count(),
        ]
        assert out.tolist() == [int(each) for each in wanted]
        plain[other : other + length] = plain[at : at + length]
        plain[at : at + 8] = matches.to_bytes(8, "little")
        assert data.tobytes() == bytes(plain)  # and no other byte has changed


@kernel("void(float64, float64, float64[:])", on_demand=True)
def calls_the_c_library(x: float, y: float, out: np.ndarray) -> None:
    out[0] = SINE(x)
    out[1] = POWER(x, y)


SINE, POWER = OF_ONE["sin"], OF_TWO["pow"]


def test_functions_of_the_c_library_are_the_same_for_kernels_and_python() -> None:
    for x, y in ((0.5, 3.0), (1e22, 0.5), (-0.0, -1.0), (2.0, 1024.0)):
        compiled, plain = np.zeros(2), np.zeros(2)
        calls_the_c_library(x, y, compiled)
        with interpreted():
            calls_the_c_library(x, y, plain)
        assert compiled.tobytes() == plain.tobytes()
