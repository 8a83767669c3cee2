"""The loops of an accumulator, as source: `execute` runs a program (`cep.kernels.windows.programs`) over the slots of a table, `absorb`
takes entries of another table into slots, `each` finds the groups of rows, takes the rows into their slots and answers every one of them:
the program would be the same for all rows. They are made of what the states say (`cep.compile.aggregate.states`), as
`cep.compile.aggregate.source` is.

All return the operation, entry or row for which a table lacked room, untouched, or `stop`; `each` -1 - (the row) where it is taken, and
there was no room for its answer. Rows before `taken` have been taken. The first word of a slot's entry is 1 while it
holds something; the second is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cep.compile.aggregate.apart import Apart, identity_lines
from cep.compile.aggregate.source import HEADER, KEY_WORDS, further_imports, numpy_type_of, places_of, sums_of, text_places, width_of
from cep.compile.aggregate.states import AggregateState, Arguments
from cep.compile.windows import trailing_source
from cep.kernels.jit import Kernel, generate
from cep.model.schema import DataType

_IMPORTS = """from cep.kernels.jit import inlined
from cep.kernels.windows.programs import ADD, COUNT, EMIT, FREE, GROUP, LAST, MERGE, RESET, SLOT, SLOTS_A_ROW, UPDATE, next_slot, slots_left
from cep.kernels.machine.memory import prefetch
from cep.kernels.tables.group_table import number_block
"""

_SOURCE = """

@inlined
def _clear(entries, at):
{clear}


@inlined
def _update_room(entries, at, arena, i, {arguments}):
    return {update_room}


@inlined
def _update(entries, at, arena, used, pool, pooled, i, {arguments}):
{update}
    return used, pooled


@inlined
def _merge_room(entries, at, other, s, other_arena):
    return {merge_room}


@inlined
def _merge(entries, at, arena, used, pool, pooled, other, s, other_arena, other_pool):
{merge}
    return used, pooled


@inlined
def _answer_room(entries, at, other, s, other_arena):
    return {answer_room}


@inlined
def _answer(entries, at, arena, used, pool, pooled, other, s, other_arena, other_pool):
{answer}
    return used, pooled


@inlined
def _fits(control, arena, pool, wanted):
    if control[ARENA_USED] + wanted <= len(arena) and control[POOL_USED] + {sums} <= len(pool):
        return True
    control[ARENA_WANTED] = wanted
    return False


@inlined
def _left(control, used, pooled, out_control, rows, out_used, out_pooled, at):
    control[ARENA_USED], control[POOL_USED] = used, pooled
    out_control[ROWS], out_control[ARENA_USED], out_control[POOL_USED] = rows, out_used, out_pooled
    return at


@kernel("int64(const int64[:, :], int64, int64, {table}, {table}, const int64[:], int64, const uint8[:], const int64[:, :], {types})")
def execute(
    program, start, stop, entries, control, arena, pool, out, out_control, out_arena, out_pool, groups, group_width, group_arena, emitted,
    {arguments}
):
    control[ARENA_WANTED], out_control[ARENA_WANTED] = 0, 0
    for n in range(start, stop):
        operation, at = program[n, 0], program[n, 1] * {width}
        if operation == UPDATE:
            i = program[n, 2]
            if not _fits(control, arena, pool, _update_room(entries, at, arena, i, {arguments})):
                return n
            control[ARENA_USED], control[POOL_USED] = _update(
                entries, at, arena, control[ARENA_USED], pool, control[POOL_USED], i, {arguments}
            )
        elif operation == EMIT:
            row = out_control[ROWS]
            to, key = row * {width}, emitted[row, GROUP] * group_width
            w0, w1 = np.uint64(groups[key]), np.uint64(groups[key + 1])
            _clear(out, to)
            if not _fits(out_control, out_arena, out_pool, key_room(w1, group_arena) + _merge_room(out, to, entries, at, arena)):
                return n
            out[to], out[to + 1] = np.int64(w0), np.int64(w1)
            if is_long(w1):
                out_control[ARENA_USED] = put_key(out, to, out_arena, out_control[ARENA_USED], w1, group_arena)
            out_control[ARENA_USED], out_control[POOL_USED] = _merge(
                out, to, out_arena, out_control[ARENA_USED], out_pool, out_control[POOL_USED], entries, at, arena, pool
            )
            out_control[ROWS] = row + 1
        elif operation == RESET:
            entries[at] = 1
            _clear(entries, at)
        elif operation == FREE:
            entries[at] = 0
        elif operation == MERGE:
            s = program[n, 2] * {width}
            if not _fits(control, arena, pool, _merge_room(entries, at, entries, s, arena)):
                return n
            control[ARENA_USED], control[POOL_USED] = _merge(
                entries, at, arena, control[ARENA_USED], pool, control[POOL_USED], entries, s, arena, pool
            )
        else:
            to = (out_control[ROWS] - 1) * {width}
            if not _fits(out_control, out_arena, out_pool, _merge_room(out, to, entries, at, arena)):
                return n
            out_control[ARENA_USED], out_control[POOL_USED] = _merge(
                out, to, out_arena, out_control[ARENA_USED], out_pool, out_control[POOL_USED], entries, at, arena, pool
            )
    return stop


@kernel(
    "int64(const int64[:], const int64[:], const uint8[:], int64, int64, {table}, const int64[:], const uint8[:], const int64[:, :])"
)
def absorb(targets, sources, fresh, start, stop, entries, control, arena, pool, other, other_arena, other_pool):
    control[ARENA_WANTED] = 0
    for n in range(start, stop):
        at, s = targets[n] * {width}, sources[n] * {width}
        if fresh[n]:
            entries[at] = 1
            _clear(entries, at)
        if not _fits(control, arena, pool, _merge_room(entries, at, other, s, other_arena)):
            return n
        control[ARENA_USED], control[POOL_USED] = _merge(
            entries, at, arena, control[ARENA_USED], pool, control[POOL_USED], other, s, other_arena, other_pool
        )
    return stop

"""

_TABLE = "int64[:], int64[:], uint8[:], int64[:, :]"
_WORDS = "const int64[:]"


@dataclass(frozen=True)
class SlotLoops:
    """`execute` and `each` take behind their tables what `Loops.update` takes behind the key; `nothing` is that for programs that take
    no row."""

    execute: Kernel
    absorb: Kernel
    trail: Kernel
    nothing: tuple[np.ndarray, ...]


def compile_slot_loops(states: Sequence[AggregateState], types: dict[str, DataType]) -> SlotLoops:
    """The loops for `states` over columns of `types`; not yet machine code."""
    arguments = Arguments()
    placed = [(state, f"at + {k}", f"s + {k}") for state, k in zip(states, places_of(states), strict=True)]
    apart = Apart(states, places_of(states))
    if apart.is_worth_it:
        update, update_room = apart.update(arguments), apart.room(arguments)
        merge, merge_room = apart.merge(), apart.merge_room()
        answer, answer_room = apart.answer(), apart.answer_room()
    else:
        update = [line for state, at, _ in placed for line in state.update(arguments, at)]
        update_room = [state.room(arguments, at) for state, at, _ in placed]
        merge = [line for state, at, s in placed for line in state.merge(at, s)]
        merge_room = [state.merge_room(at, s) for state, at, s in placed]
        answer = [line for state, at, s in placed for line in state.answer(at, s)]
        answer_room = [state.answer_room(at, s) for state, at, s in placed]
    update_room += [f"text_room({', '.join(text)})" for state in states for text in state.texts(arguments)]
    origin = any(state.origin for state in states)
    kinds = {"time": _WORDS, **({"origin": "const int64[:, :]"} if origin else {})}
    kinds |= {name: numpy_type_of(what, types[column]) for name, (column, what) in arguments.used.items()}
    body = (_SOURCE + trailing_source.SOURCE).format(
        clear=_lines(_identity(states)),
        update=_lines(update),
        update_room=_sum(update_room),
        merge=_lines(merge),
        merge_room=_sum([*merge_room, *_merged_texts(states)]),
        answer=_lines(answer),
        answer_room=_sum([*answer_room, *_merged_texts(states)]),
        arguments=", ".join(kinds),
        types=", ".join(kinds.values()),
        table=_TABLE,
        width=width_of(states),
        sums=sums_of(states),
    )
    body = apart.functions + body
    module = generate(HEADER + further_imports(body) + _IMPORTS + trailing_source.IMPORTS + body, "accumulator")
    return SlotLoops(module.execute, module.absorb, module.trail, tuple(map(_empty, kinds.values())))


def _empty(type_: str) -> np.ndarray:
    """An array of that type with no values."""
    name, dimensions = type_.removeprefix("const ").split("[")
    return np.empty((0,) * dimensions.count(":"), name)


def _identity(states: Sequence[AggregateState]) -> list[str]:
    return identity_lines(states, KEY_WORDS)


def _merged_texts(states: Sequence[AggregateState]) -> list[str]:
    ends = [k + j + 1 for state, k in zip(states, places_of(states), strict=True) for j in text_places(state)]
    return [f"text_room(np.uint64(other[s + {end}]), other_arena)" for end in ends]


def _sum(terms: Sequence[str]) -> str:
    return " + ".join(term for term in terms if term) or "0"


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line}" for line in lines) or "    pass"
