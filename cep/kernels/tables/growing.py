"""Arrays that grow without being copied: large ones lie in memory of their own, whose pages the system moves (mremap)."""

from __future__ import annotations

import mmap

import numpy as np

#: Bytes from which an array gets memory of its own, in huge pages.
LARGE = 4 << 20


def grow(holder: object, name: str, length: int) -> None:
    """Makes the array `name` of `holder`, any[n], `length` >= n long; what is behind its old end is undefined.

    Where other code refers to the array it is copied, and that code keeps the old one.
    """
    array: np.ndarray = getattr(holder, name)
    memory = array.base.obj if isinstance(array.base, memoryview) else None
    if isinstance(memory, mmap.mmap):
        kind = array.dtype
        setattr(holder, name, None)
        del array  # the last look at the memory
        grown = _resized(memory, length * kind.itemsize)
        array = np.frombuffer(memory, kind)
        if grown:
            setattr(holder, name, array)
            return
    longer = _empty(length, array.dtype)
    longer[: len(array)] = array
    setattr(holder, name, longer)


def _empty(length: int, kind: np.dtype) -> np.ndarray:
    size = length * kind.itemsize
    if size < LARGE:
        return np.empty(length, kind)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, kind)


def _resized(memory: mmap.mmap, size: int) -> bool:
    try:
        memory.resize(size)
    except BufferError:  # an array looks at it
        return False
    memory.madvise(mmap.MADV_HUGEPAGE)
    return True
