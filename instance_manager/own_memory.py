"""The memory of an instance manager: taken from the kernel when it starts, on the node that it is bound to, and kept.

The first touch of a page costs a fault, on a virtual machine that has given its free memory back to the host a hundred times as much
(`benchmarks/log/memory.md`). So arrays come from the heap, which is never given back, and the heap has been touched before *ready*. Larger
ones (`cep.kernels.tables.growing`) leave what they lay in for others.
"""

from __future__ import annotations

import ctypes
import os

import numpy as np

from cep.kernels.tables.growing import keep

TOUCHED_BYTES = 48 << 20  # a window over text files takes 42 of them
KEPT_BYTES, KEPT_PART = 512 << 20, 32
"""Of what large arrays have lain in, so much is kept for others, and no more than so great a part of the machine's memory."""
_PIECE_BYTES = 1 << 20
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # malloc.h
_NEVER, _MMAP_LARGEST, _PAD_BYTES = 2**31 - 1, 32 << 20, 8 << 20


def take() -> None:
    """Once, by the thread that will allocate. Where the C library has another `malloc`, nothing is kept."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return
    for parameter, value in ((_M_TRIM_THRESHOLD, _NEVER), (_M_MMAP_THRESHOLD, _MMAP_LARGEST), (_M_TOP_PAD, _PAD_BYTES)):
        library.mallopt(parameter, value)
    keep(min(KEPT_BYTES, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // KEPT_PART))
    for piece in [np.empty(_PIECE_BYTES, np.uint8) for _ in range(TOUCHED_BYTES // _PIECE_BYTES)]:
        piece.fill(0)
