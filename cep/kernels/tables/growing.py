"""Arrays that grow without being copied: large ones lie in memory of their own, whose pages the system moves (mremap).

Memory that no array lies in any more may be kept for those to come (`keep`): the first touch of a page costs more than all that is
written to it, on a virtual machine that has given its free memory back to the host many times as much (`benchmarks/log/memory.md`).
"""

from __future__ import annotations

import mmap

import numpy as np

#: Bytes from which an array gets memory of its own, in huge pages.
LARGE = 4 << 20


class _Kept(list["_Memory"]):
    """Memory that is free, of `most` bytes together."""

    most = 0

    def put(self, memory: _Memory) -> None:
        if sum(map(len, self)) + len(memory) <= self.most:
            self.append(memory)

    def take(self) -> _Memory | None:
        """The largest: an array that is large before others becomes larger than they, mostly."""
        if not self:
            return None
        return self.pop(max(range(len(self)), key=lambda i: len(self[i])))


_KEPT = _Kept()


class _Memory(mmap.mmap):
    """Without attributes it is no object that garbage is looked for in: so it is asked again whenever it would be freed."""

    __slots__ = ()

    def __del__(self, kept: _Kept = _KEPT) -> None:  # at the end of the process the name may be gone
        if not self.closed:
            kept.put(self)


def keep(most: int) -> None:
    """Of what becomes free so many bytes are kept from now on; at first 0: all goes back to the system at once."""
    _KEPT.most = most


def let_go() -> None:
    """What is kept goes back to the system."""
    while (memory := _KEPT.take()) is not None:
        memory.close()


def grow(holder: object, name: str, length: int) -> None:
    """Makes the array `name` of `holder`, any[n], `length` >= n long; what is behind its old end is undefined.

    Where other code refers to the array it is copied, and that code keeps the old one.
    """
    array: np.ndarray = getattr(holder, name)
    memory = array.base.obj if isinstance(array.base, memoryview) else None
    if isinstance(memory, _Memory):
        kind, before = array.dtype, len(array)
        setattr(holder, name, None)
        del array  # the last look at the memory
        grown = _resized(memory, length * kind.itemsize)
        array = np.frombuffer(memory, kind, length if grown else before)
        if grown:
            setattr(holder, name, array)
            return
    longer = empty(length, array.dtype)
    longer[: len(array)] = array
    setattr(holder, name, longer)


def empty(length: int, kind: np.dtype) -> np.ndarray:
    """An array of undefined values; of a large one the memory may have been another's."""
    size = length * kind.itemsize
    if size < LARGE:
        return np.empty(length, kind)
    memory = _KEPT.take() or _Memory(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _resized(memory, size)
    return np.frombuffer(memory, kind, length)


def _resized(memory: _Memory, size: int) -> bool:
    """Makes it `size` bytes long at least; what is longer, from an array before, stays so."""
    try:
        memory.resize(max(size, len(memory)))
    except BufferError:  # an array looks at it
        return False
    memory.madvise(mmap.MADV_HUGEPAGE)
    return True
