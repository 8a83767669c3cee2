"""How fast one core reads the memory of each NUMA node: `python -m hibench.numa.memory_probe '<json>'`, a process of its own for each core.

It binds itself to the core, and before each measurement its memory to the node; so the buffer lies there, and the kernel is asked whether
it does. Small and honest: the best of a few readings, by one core, of a buffer several times as large as the last cache.

    bandwidth   GB/s of summing the buffer from end to end, eight bytes at a time
    latency     ns for a step from one cache line to another that is only known when the first has come, in random order over the
                buffer: what of it is the memory's and what is the page tables' is not told apart
"""

from __future__ import annotations

import json
import sys
import time

from cep.numa import bind, pages_by_node, verify

_READINGS = 5
_STEPS = 1 << 18


def main() -> None:
    asked = json.loads(sys.argv[1])
    bind(asked["core"], asked["home"])
    json.dump([measured(asked["core"], node, asked["bytes"]) for node in asked["nodes"]], sys.stdout)


def measured(core: int, node: int, size: int) -> dict[str, object]:
    """What `core` finds at `node`, with a buffer of about `size` bytes: see the head of this file."""
    bind(None, node)
    from hibench.numa.memory_walk import LINE_BYTES, walk, walk_of  # only now: what touches memory is imported when this process is bound

    chain = walk_of(max(2, size // LINE_BYTES))
    walk(chain, 0, 1)  # compiled before the clock runs
    bandwidths, latencies = [], []
    for _ in range(_READINGS):
        start = time.perf_counter()
        chain.sum()
        bandwidths.append(chain.nbytes / (time.perf_counter() - start) / 1e9)
        start = time.perf_counter()
        walk(chain, 0, _STEPS)
        latencies.append((time.perf_counter() - start) / _STEPS * 1e9)
    try:
        pages = pages_by_node(chain.ctypes.data, chain.nbytes)
    except OSError:
        pages = {}
    return {
        "core": core,
        "memory_node": node,
        "buffer_bytes": chain.nbytes,
        "gigabytes_per_second": round(max(bandwidths), 3),
        "nanoseconds_per_step": round(min(latencies), 2),
        "pages_by_node": pages,
        "binding": verify(core, node).to_json(),
    }


if __name__ == "__main__":
    main()
