"""Which variables a row is one of behind the rows of a way, and what the way remembers of it: bits of what the row is alone, and a function
that is compiled for each query.

`tables` are those of `cep.kernels.patterns.way_tables`.
"""

from __future__ import annotations

from typing import Any

from cep.kernels.jit import apart, inlined
from cep.kernels.machine.addresses import call_of
from cep.kernels.patterns.lines import (
    Tables,
    parameters_at,
)
from cep.kernels.patterns.places import (
    CORRELATED,
    REGISTERS,
    REMEMBERED,
)
from cep.kernels.patterns.way_tables import (
    JUDGE,
    bits_at,
    pool_at,
    registers_at,
    sums_at,
)
from cep.kernels.states.exact_sum import POOL_WORDS, SPILLED


@inlined
def copy_registers(way: int, parent: int, tables: Tables) -> None:
    """What the way `parent` remembers, the way `way` does; NONE: nothing."""
    registers, pool, sums, parameters = registers_at(tables), pool_at(tables), sums_at(tables), parameters_at(tables)
    width = parameters[REGISTERS]
    to, of = way * width, parent * width
    if parent < 0:
        for k in range(width):
            registers[to + k] = 0
        return
    for k in range(width):
        registers[to + k] = registers[of + k]
    for j in range(len(sums)):
        if registers[to + sums[j]] & SPILLED:
            line, other = way * len(sums) + j, parent * len(sums) + j
            for k in range(POOL_WORDS):
                pool[line, k] = pool[other, k]
            registers[to + sums[j] + 1] = line


@apart
def apart_ask(v: int, i: int, parent: int, tables: Tables) -> Any:
    """Is row i one of variable v, by what the way `parent` remembers? Where ways remember rows of v, or there is none yet, the way 0 is for
    trying; else nothing is written, so none is needed."""
    if parent >= 0 and not parameters_at(tables)[REMEMBERED] >> v & 1:
        return call_of(tables, JUDGE, v, i, parent, 1) != 0
    copy_registers(0, parent, tables)
    return call_of(tables, JUDGE, v, i, 0, 1) != 0


@inlined
def way_holds(v: int, i: int, parent: int, tables: Tables) -> Any:
    """Is row i one of variable v behind the rows of the way `parent`? NONE: of no row."""
    parameters = parameters_at(tables)
    if not bits_at(tables)[i] >> v & 1:
        return False
    return not parameters[CORRELATED] >> v & 1 or apart_ask(v, i, parent, tables)


@inlined
def remember_row(v: int, i: int, way: int, parent: int, tables: Tables) -> None:
    """The way remembers what `parent` does, and row i, taken as variable v."""
    parameters = parameters_at(tables)
    if parameters[REGISTERS]:
        copy_registers(way, parent, tables)
        if parameters[REMEMBERED] >> v & 1:
            call_of(tables, JUDGE, v, i, way, 0)


@inlined
def any_way_holds(names: int, i: int, way: int, tables: Tables) -> bool:
    """Is row i one of the variables whose bits are in `names`?"""
    v = 0
    while names:
        if names & 1 and way_holds(v, i, way, tables):
            return True
        names >>= 1
        v += 1
    return False


@inlined
def which_hold(names: int, i: int, way: int, tables: Tables) -> Any:
    """Of the variables whose bits are in `names` those that row i is one of."""
    found, v = 0, 0
    while names >> v:
        if names >> v & 1 and way_holds(v, i, way, tables):
            found |= 1 << v
        v += 1
    return found
