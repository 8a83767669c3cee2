"""Words and blocks of bytes, for kernels: what a processor does in an instruction or two and Numba has no words for.

Each function is plain Python that Numba knows as machine code (LLVM chooses the instructions: a 64-byte compare is one
with AVX-512, two with AVX2). `data` is uint8[any]; `at` is not checked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from cep.kernels.pipeline import as_instructions

#: Bytes that `match_block` looks at.
BLOCK = 64

_BYTE, _LANE, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_BYTES = ir.VectorType(_BYTE, BLOCK)
_ALL = ir.Constant(ir.VectorType(_LANE, BLOCK), [0] * BLOCK)


def load_word(data: np.ndarray, at: int) -> Any:
    """The eight bytes at `at` as a little-endian uint64."""
    return np.uint64(int.from_bytes(data[at : at + 8].tobytes(), "little"))


def store_word(data: np.ndarray, at: int, word: Any) -> None:
    """Writes the 64 bits of `word` at `at`, little-endian."""
    data[at : at + 8] = np.frombuffer((int(word) & 2**64 - 1).to_bytes(8, "little"), np.uint8)


def match_block(data: np.ndarray, at: int, byte: int) -> Any:
    """Bit i of the uint64 says whether `data[at + i]` is `byte`."""
    return _bits(data[at : at + BLOCK] == byte)


def high_block(data: np.ndarray, at: int) -> Any:
    """Bit i of the uint64 says whether `data[at + i]` is 128 or more."""
    return _bits(data[at : at + BLOCK] >= 128)


def lowest_bit(word: Any) -> int:
    """Index of the lowest bit set in `word`, a uint64; 64 if there is none."""
    value = int(word)
    return (value & -value).bit_length() - 1 if value else 64


def count_bits(word: Any) -> int:
    """How many bits of `word`, a uint64, are set."""
    return int(word).bit_count()


def _bits(flags: np.ndarray) -> Any:
    return np.packbits(flags, bitorder="little").view(np.uint64)[0]


def _load(context: Any, builder: Any, array_type: Any, array: Any, at: Any, kind: Any) -> Any:
    first = context.make_array(array_type)(context, builder, array).data
    return builder.load(builder.bitcast(builder.gep(first, [at]), kind.as_pointer()), align=1)


@as_instructions(load_word)
def _load_word(typing: Any, data: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _load(context, builder, signature.args[0], arguments[0], arguments[1], _WORD)

    return types.uint64(data, types.int64), generate


@as_instructions(store_word)
def _store_word(typing: Any, data: Any, at: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        builder.store(arguments[2], builder.bitcast(builder.gep(first, [arguments[1]]), _WORD.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), generate


@as_instructions(match_block)
def _match_block(typing: Any, data: Any, at: Any, byte: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        block = _load(context, builder, signature.args[0], arguments[0], arguments[1], _BYTES)
        unset = ir.Constant(_BYTES, ir.Undefined)
        one = builder.insert_element(unset, arguments[2], ir.Constant(_LANE, 0))
        wanted = builder.shuffle_vector(one, unset, _ALL)
        return builder.bitcast(builder.icmp_unsigned("==", block, wanted), _WORD)

    return types.uint64(data, types.int64, types.uint8), generate


@as_instructions(high_block)
def _high_block(typing: Any, data: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        block = _load(context, builder, signature.args[0], arguments[0], arguments[1], _BYTES)
        return builder.bitcast(builder.icmp_signed("<", block, ir.Constant(_BYTES, [0] * BLOCK)), _WORD)

    return types.uint64(data, types.int64), generate


@as_instructions(lowest_bit)
def _lowest_bit(typing: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@as_instructions(count_bits)
def _count_bits(typing: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate
