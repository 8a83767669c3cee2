"""What Numba makes of the functions of `cep.kernels.machine.memory` and `libm`; imported with Numba, when the first kernel is compiled."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import pack_array
from numba.extending import overload
from numba.np.arrayobj import populate_array

from cep.kernels.machine.addresses import (
    call_of,
    float64s_at,
    int32s_at,
    int64s_at,
    uint8s_at,
    written_float64s_at,
    written_int64s_at,
    written_lines_at,
)
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
from cep.kernels.machine.pipeline import as_instructions, field_of

_pack: Any = pack_array
_populate: Any = populate_array
_BYTE, _LANE, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_BYTES = ir.VectorType(_BYTE, BLOCK)
_ALL = ir.Constant(ir.VectorType(_LANE, BLOCK), [0] * BLOCK)


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


@as_instructions(prefetch)
def _prefetch(typing: Any, array: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = field_of(context, builder, signature.args[0], arguments[0], "data")
        address = builder.bitcast(builder.gep(first, [arguments[1]]), _BYTE.as_pointer())
        takes = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _LANE, _LANE, _LANE])
        function = builder.module.globals.get("llvm.prefetch.p0") or ir.Function(builder.module, takes, "llvm.prefetch.p0")
        builder.call(function, [address, _LANE(1), _LANE(3), _LANE(1)])  # to be written, to all levels, data
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _pair(builder: Any, arrays: Any, k: Any) -> tuple[Any, Any]:
    """The two words of number `k` of arrays, as `addresses` writes them; they stay while a kernel runs, whatever it stores elsewhere."""
    words = builder.inttoptr(arrays, _WORD.as_pointer())
    first = builder.shl(k, _WORD(1))
    one, other = (builder.load(builder.gep(words, [builder.add(first, _WORD(more))])) for more in (0, 1))
    for load in (one, other):
        load.set_metadata("invariant.load", builder.module.add_metadata([]))
    return one, other


@as_instructions(call_of)
def _call_of(typing: Any, arrays: Any, k: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    takes = [types.int64] * 5

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        convention = context.call_conv
        kind = convention.get_function_type(types.int64, takes)
        function, where = _pair(builder, *arguments[:2])
        called = builder.inttoptr(function, kind.as_pointer())
        _, returned = convention.call_function(builder, called, types.int64, takes, [*arguments[2:], where])
        return returned

    return types.int64(types.int64, types.int64, *takes[1:]), generate


def _made(context: Any, builder: Any, kind: Any, arguments: Any) -> Any:
    """The array whose address and length stand there; of a third argument, lines of so many items."""
    address, size = _pair(builder, *arguments[:2])
    item = context.get_data_type(kind.dtype)
    bytes_ = _WORD(context.get_abi_sizeof(item))
    shape, strides = [size], [bytes_]
    for width in arguments[2:]:
        shape, strides = [builder.sdiv(size, width), width], [builder.mul(bytes_, width), bytes_]
    made = context.make_array(kind)(context, builder)
    sizes = {"shape": _pack(builder, shape, _WORD), "strides": _pack(builder, strides, _WORD)}
    _populate(made, data=builder.inttoptr(address, item.as_pointer()), itemsize=bytes_, meminfo=None, **sizes)
    return made._getvalue()


def _array_at(kind: Any) -> Any:
    def definition(typing: Any, arrays: Any, k: Any) -> Any:
        return kind(types.int64, types.int64), lambda context, builder, _, given: _made(context, builder, kind, given)

    return definition


for _at, _dtype in ((int64s_at, types.int64), (int32s_at, types.int32), (float64s_at, types.float64), (uint8s_at, types.uint8)):
    as_instructions(_at)(_array_at(types.Array(_dtype, 1, "C", readonly=True, aligned=False)))
as_instructions(written_int64s_at)(_array_at(types.Array(types.int64, 1, "C")))
as_instructions(written_float64s_at)(_array_at(types.Array(types.float64, 1, "C")))


@as_instructions(written_lines_at)
def _written_lines_at(typing: Any, arrays: Any, k: Any, width: Any) -> Any:
    kind = types.Array(types.int64, 2, "C")
    return kind(types.int64, types.int64, types.int64), lambda context, builder, _, given: _made(context, builder, kind, given)


def as_accessor(function: Any, number: int, width: int) -> None:
    """`function` finds an array by its number (`addresses.table_at`)."""
    kind = types.Array(types.int64, 2 if width else 1, "C")
    more = [_WORD(width)] if width else []

    def definition(typing: Any, arrays: Any) -> Any:
        return kind(types.int64), lambda context, builder, _, given: _made(context, builder, kind, [given[0], _WORD(number), *more])

    as_instructions(function)(definition)


def _called(name: str) -> Any:
    function: Any = types.ExternalFunction(name, types.float64(types.float64))
    return lambda x: lambda x: function(x)


def _called_with_two(name: str) -> Any:
    function: Any = types.ExternalFunction(name, types.float64(types.float64, types.float64))
    return lambda x, y: lambda x, y: function(x, y)


for _name, _function_of_one in OF_ONE.items():
    overload(_function_of_one)(_called(_name))
for _name, _function_of_two in OF_TWO.items():
    overload(_function_of_two)(_called_with_two(_name))
