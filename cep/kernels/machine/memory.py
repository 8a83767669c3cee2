"""Words and blocks of bytes, for kernels: what a processor does in an instruction or two and Numba has no words for.

Each function is plain Python that Numba knows as machine code (LLVM chooses the instructions: a 64-byte compare is one
with AVX-512, two with AVX2). `data` is uint8[any]; `at` is not checked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from cep.kernels.machine.pipeline import as_instructions, field_of

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


def copy_bytes(source: np.ndarray, start: Any, target: np.ndarray, at: Any, length: Any) -> None:
    """Copies `length` bytes (>= 0) from `start` to `at` and touches no other."""
    target[at : at + length] = source[start : start + length]


def equal_bytes(data: np.ndarray, at: Any, other: np.ndarray, other_at: Any, length: Any) -> bool:
    """Are the `length` bytes (>= 0) at `at` those of `other` at `other_at`?"""
    return bool((data[at : at + length] == other[other_at : other_at + length]).all())


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
    first = field_of(context, builder, array_type, array, "data")
    return builder.load(builder.bitcast(builder.gep(first, [at]), kind.as_pointer()), align=1)


@as_instructions(load_word)
def _load_word(typing: Any, data: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _load(context, builder, signature.args[0], arguments[0], arguments[1], _WORD)

    return types.uint64(data, types.int64), generate


@as_instructions(store_word)
def _store_word(typing: Any, data: Any, at: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = field_of(context, builder, signature.args[0], arguments[0], "data")
        builder.store(arguments[2], builder.bitcast(builder.gep(first, [arguments[1]]), _WORD.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), generate


def _address(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    return builder.bitcast(builder.gep(field_of(context, builder, kind, array, "data"), [at]), _BYTE.as_pointer())


def _function(builder: Any, name: str, returns: Any, takes: list[Any]) -> Any:
    return builder.module.globals.get(name) or ir.Function(builder.module, ir.FunctionType(returns, takes), name)


@as_instructions(copy_bytes)
def _copy_bytes(typing: Any, source: Any, start: Any, target: Any, at: Any, length: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        taken = _address(context, builder, signature.args[0], *arguments[:2])
        put = _address(context, builder, signature.args[2], *arguments[2:4])
        pointer = _BYTE.as_pointer()
        copy = _function(builder, "llvm.memmove.p0.p0.i64", ir.VoidType(), [pointer, pointer, _WORD, ir.IntType(1)])
        builder.call(copy, [put, taken, arguments[4], ir.IntType(1)(0)])
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64, types.int64), generate


@as_instructions(equal_bytes)
def _equal_bytes(typing: Any, data: Any, at: Any, other: Any, other_at: Any, length: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sides = [_address(context, builder, signature.args[k], *arguments[k : k + 2]) for k in (0, 2)]
        compare = _function(builder, "memcmp", _LANE, [_BYTE.as_pointer(), _BYTE.as_pointer(), _WORD])
        return builder.icmp_signed("==", builder.call(compare, [*sides, arguments[4]]), _LANE(0))

    return types.boolean(data, types.int64, other, types.int64, types.int64), generate


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
