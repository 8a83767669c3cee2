"""Fifty maps as one chain of the engine, over batches in memory; the clock runs while the chain does.

`python -m benchmarks.measured.maps --maps multiply-add|add --records N`
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from benchmarks.metering import say
from cep.compile.chain.chain import Chain, compile_chain
from cep.kernels.columns import Column
from cep.model.expr import Expr, col
from cep.model.operators import Map
from cep.model.schema import Schema
from instance_manager import own_memory

MAPS = 50
BATCH_ROWS = 1 << 16  # as the engine emits them at most

#: name -> (type, a map, what a result is multiplied by before it is added up as a whole number, as the C program does)
KINDS: dict[str, tuple[str, Callable[[Expr], Expr], float]] = {
    "multiply-add": ("float64", lambda x: x * 0.5 + 1.0, 1024.0),
    "add": ("int64", lambda x: x + 1, 1),
}


def chain_of(type_: str, one: Callable[[Expr], Expr]) -> Chain:
    """MAPS maps, each over the one before."""
    names = ["s", *(f"m{i}" for i in range(MAPS))]
    operators = tuple(Map(name, before, (("x", one(col("x"))),)) for before, name in pairwise(names))
    return compile_chain(operators, Schema.of({"x": type_}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--maps", choices=KINDS, required=True)
    parser.add_argument("--records", type=int, required=True)
    asked = parser.parse_args()
    type_, one, scale = KINDS[asked.maps]
    own_memory.take()  # as the engine's process does
    chain = chain_of(type_, one)
    data_type, values = chain.schema.by_name["x"].type, np.arange(asked.records).astype(type_)
    batches = [{"x": Column(data_type, values[at : at + BATCH_ROWS])} for at in range(0, asked.records, BATCH_ROWS)]
    chain.process(batches[-1], len(batches[-1]["x"]), 0)
    cpu_ns, total = 0, 0
    for batch in batches:
        start = time.process_time_ns()
        found = chain.process(batch, len(batch["x"]), 0)
        cpu_ns += time.process_time_ns() - start
        total += int((found.columns["x"].values * scale).astype(np.int64).sum())
    say(records=asked.records, sum=total, loops=len(chain.loops), cpu_s=cpu_ns / 1e9, records_per_cpu_s=asked.records / cpu_ns * 1e9)


if __name__ == "__main__":
    main()
