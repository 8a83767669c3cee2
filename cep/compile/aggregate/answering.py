"""The loop that takes rows into a table and answers each of them, as source: `update` (`cep.compile.aggregate.source`) with what an entry
holds behind its row written out, once the row is in it.

It has besides the arguments of `update`:

    taken                                        rows before it have been taken, and are only answered
    ttl                                          a group whose last row is longer ago begins anew; no group does where entries have no LAST
    out, out_control, out_arena, out_pool        of the answers
    marks, block_shift                           `marks[k]` is set where block k, of 2**block_shift entries, changes

It returns what `update` returns, or -1 - (the row) where that is taken, and there was no room for its answer. Answer number i is of row i,
and has of its entry the words behind the key that answers are made of: `stride` of them, word k of an entry at `out[i * stride + k]`. So
the words of one answer behind the other lie side by side, and the first KEY_WORDS words of `out` are nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cep.compile.aggregate.apart import Apart, identity_lines
from cep.compile.aggregate.states import AggregateState


@dataclass(frozen=True)
class Answering:
    """`asked`: so many states, the first ones, are what answers are made of. `last`: which word of an entry is the event time of the last
    row; None: nothing asks."""

    asked: int
    last: int | None


#: More words than these are copied in a loop.
COPIED = 8

ARGUMENTS = {
    "taken": "int64",
    "ttl": "int64",
    "out": "int64[:]",
    "out_control": "int64[:]",
    "out_arena": "uint8[:]",
    "out_pool": "int64[:, :]",
    "marks": "uint8[:]",
    "block_shift": "int64",
}

_FUNCTIONS = """

@inlined
def _clear(entries, at):
{clear}


@inlined
def _answer_room(entries, at, other, s, other_arena):
    return {room}


@inlined
def _answer(entries, at, arena, used, pool, pooled, other, s, other_arena, other_pool):
{answer}
    return used, pooled
"""

_ANSWER = """_clear(out, to)
more = _answer_room(out, to, entries, at, arena)
if out_control[ARENA_USED] + more > len(out_arena) or out_control[POOL_USED] + {sums} > len(out_pool):
    control[ROWS], control[ARENA_USED], control[POOL_USED], control[ARENA_WANTED] = rows, used, pooled, 0
    out_control[ARENA_WANTED] = more
    return -1 - i
out_control[ARENA_USED], out_control[POOL_USED] = _answer(
    out, to, out_arena, out_control[ARENA_USED], out_pool, out_control[POOL_USED], entries, at, arena, pool
)"""


def lines_of(answering: Answering, apart: Apart, update: Sequence[str]) -> tuple[list[str], str]:
    """What is done with a row whose entry is at `at`, and the functions that this calls. `update`: lines that take it."""
    first, asked = apart.places[0], list(zip(apart.states, apart.places, strict=True))[: answering.asked]
    stride = sum(state.words for state, _ in asked)
    begin = [] if answering.last is None else _begin_anew(answering.last, apart.states, first)
    taking = ["marks[at // {width} >> block_shift] = 1", "if i >= taken:", *(f"    {line}" for line in [*begin, *update])]
    if all(part.kind == "words" for state, _ in asked for part in state.parts):
        words = range(first, first + stride)
        copied = [f"out[i * {stride} + {k}] = entries[at + {k}]" for k in words]
        many = [f"for k in range({first}, {first + stride}):", f"    out[i * {stride} + k] = entries[at + k]"]
        return [*taking, *(many if stride > COPIED else copied)], ""
    sums = sum(part.kind == "sum" for state, _ in asked for part in state.parts)
    lines = [f"to = i * {stride}", *_ANSWER.format(sums=sums).split("\n")]
    return [*taking, *lines], _functions(apart.first(answering.asked), asked, first)


def _begin_anew(last: int, states: Sequence[AggregateState], first: int) -> list[str]:
    return [f"if time[i] - ttl > entries[at + {last}]:", *(f"    {line}" for line in identity_lines(states, first))]


def _functions(apart: Apart, asked: Sequence[tuple[AggregateState, int]], first: int) -> str:
    if apart.is_worth_it:
        answer, room = apart.answer(), apart.answer_room()
    else:
        answer = [line for state, k in asked for line in state.answer(f"at + {k}", f"s + {k}")]
        room = [state.answer_room(f"at + {k}", f"s + {k}") for state, k in asked]
    return _FUNCTIONS.format(
        clear=_lines(identity_lines([state for state, _ in asked], first)),
        room=" + ".join(term for term in [*room, *_texts(asked)] if term) or "0",
        answer=_lines(answer),
    )


def _texts(asked: Sequence[tuple[AggregateState, int]]) -> list[str]:
    """The room that texts take."""
    found = []
    for state, place in asked:
        for part in state.parts:
            place += part.words
            found += [f"text_room(np.uint64(other[s + {place - 1}]), other_arena)"] * (part.kind == "text")
    return found


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line}" for line in lines) or "    pass"
