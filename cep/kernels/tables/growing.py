"""Arrays that grow without being copied: large ones lie in memory of their own, whose pages the system moves (mremap).

Memory that no array lies in any more may be kept for those to come (`keep`): the first touch of a page costs more than all that is
written to it, on a virtual machine that has given its free memory back to the host many times as much (`benchmarks/log/memory.md`).
"""

from __future__ import annotations

import mmap
from weakref import ref

import numpy as np

#: Bytes from which an array gets memory of its own, in huge pages.
LARGE = 4 << 20


class _Kept(list[mmap.mmap]):
    """Memory that is free, of `most` bytes together."""

    most = 0

    def put(self, memory: mmap.mmap) -> None:
        if sum(map(len, self)) + len(memory) <= self.most:
            self.append(memory)

    def take(self) -> mmap.mmap | None:
        """The largest: an array that is large before others becomes larger than they, mostly."""
        try:
            return self.pop(max(range(len(self)), key=lambda i: len(self[i])))
        except (ValueError, IndexError):  # there is none, or another thread has just taken it
            return None

    def fitting(self, size: int) -> mmap.mmap | None:
        """One of at least so many bytes, and not many more."""
        try:
            return self.pop(next(i for i, each in enumerate(self) if size <= len(each) <= 2 * size))
        except (StopIteration, IndexError):
            return None


_KEPT = _Kept()


class _Lease:
    """What all arrays in a memory refer to, so it is gone when they are: then the memory is free. An object of its own for each time, for
    Python asks none more than once what is to be done when it goes."""

    __slots__ = ("__array_interface__", "__weakref__", "memory")

    def __init__(self, memory: mmap.mmap) -> None:
        self.memory: mmap.mmap | None = memory
        at, _ = np.frombuffer(memory, np.uint8).__array_interface__["data"]
        self.__array_interface__ = {"version": 3, "shape": (len(memory),), "typestr": "|u1", "data": (at, False)}

    def __del__(self, kept: _Kept = _KEPT) -> None:  # at the end of the process the name may be gone
        if self.memory is not None:
            kept.put(self.memory)


def keep(most: int) -> None:
    """Of what becomes free so many bytes are kept from now on; at first 0: all goes back to the system at once."""
    _KEPT.most = most


def keep_at_least(most: int) -> None:
    """That, unless it is more already."""
    _KEPT.most = max(_KEPT.most, most)


def let_go() -> None:
    """What is kept goes back to the system."""
    while _KEPT:
        if (memory := _KEPT.take()) is not None:
            memory.close()


def grow(holder: object, name: str, length: int) -> None:
    """Makes the array `name` of `holder`, any[n], `length` >= n long; what is behind its old end is undefined.

    Where other code refers to the array it is copied, and that code keeps the old one.
    """
    array: np.ndarray = getattr(holder, name)
    lease = getattr(array.base, "base", None)  # other memory than ours may be in an object of any kind
    if isinstance(lease, _Lease) and lease.memory is not None:
        kind, before, memory, looked_at = array.dtype, len(array), lease.memory, ref(lease)
        setattr(holder, name, None)
        lease.memory = None  # nothing frees it now
        del array, lease  # the last looks at it, if nothing else has any
        if (lease := looked_at()) is None:
            setattr(holder, name, _within(_resized(memory, length * kind.itemsize), length, kind))
            return
        lease.memory = memory
        array = np.ndarray(before, kind, np.asarray(lease))
    longer = empty(length, array.dtype)
    longer[: len(array)] = array
    setattr(holder, name, longer)


def room(size: int) -> np.ndarray:
    """uint8[size], of undefined values, for something that does not grow; its memory may have been another's."""
    return _within(_KEPT.fitting(size) or _resized(_mapped(size), size), size, np.dtype(np.uint8))


def empty(length: int, kind: np.dtype) -> np.ndarray:
    """An array of undefined values; of a large one the memory may have been another's."""
    size = length * kind.itemsize
    if size < LARGE:
        return np.empty(length, kind)
    return _within(_resized(_KEPT.take() or _mapped(size), size), length, kind)


def _mapped(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _within(memory: mmap.mmap, length: int, kind: np.dtype) -> np.ndarray:
    return np.ndarray(length, kind, np.asarray(_Lease(memory)))


def _resized(memory: mmap.mmap, size: int) -> mmap.mmap:
    """The same, `size` bytes long at least; what is longer, from an array before, stays so."""
    memory.resize(max(size, len(memory)))
    memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
