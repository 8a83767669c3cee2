"""A segment of a ring: elements that one process has written, in memory that outlives it, so that another can read them when it is gone.

Layout: HEAD_WORDS words, a document as JSON, elements one behind the other; all at multiples of 8 bytes.

1. An element counts when `length` covers it, which is written behind it and in one piece. A process that is killed in the middle leaves
   what came before.
2. The file has all its room from the start (`posix_fallocate`), and its name only when its head is written. So memory that runs out is an
   error of who makes the segment, and no signal in the middle of a copy; and what has the name is whole.
3. To *seal* is to say that nothing more counts: the flag is set, a barrier passes all processors, and then the length is read. The writer
   writes its element, then the length, then reads the flag. So an element counts, or its writer knows that it does not; never neither.
4. What still reads a segment when it was removed reads what it was. Its writer uses the memory again, under another name, only if no other
   process looks at it: whoever opens one holds it (`flock`), and looks then whether the name is its own still.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import struct
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cep.errors import ClusterError

MAGIC = int.from_bytes(b"CEPRING1", "little")
HEAD_WORDS = 8
_MAGIC, _LENGTH, _SEALED, _FIRST, _DOCUMENT_BYTES, _PARTIAL = range(6)
_HEAD_BYTES = 8 * HEAD_WORDS
_ELEMENT = struct.Struct("<QQQ")  # its number, bytes of its head, bytes of its body
#: Of membarrier(2), by machine.
_MEMBARRIER = {"x86_64": 324, "aarch64": 283}
_GLOBAL = 1


class Sealed(ClusterError):
    """What was written last does not count, and nothing that comes does."""


class NoSegment(ClusterError):
    """A file that is no segment, or is cut short."""


class Element(NamedTuple):
    """`head` and `body` are views of the segment. One without a head is a note of what holds from the element of its number on."""

    number: int
    head: memoryview
    body: memoryview

    @property
    def is_note(self) -> bool:
        return not self.head


def room_for(head: int, body: int) -> int:
    """Bytes that an element takes."""
    return _ELEMENT.size + _padded(head) + _padded(body)


def _padded(size: int) -> int:
    return size + 7 & ~7


class Segment:
    """One that is mapped, to be written by the process that has made it, or read by another."""

    def __init__(self, path: Path, memory: mmap.mmap) -> None:
        self.path, self.size = path, len(memory)
        self._memory, self._words = memory, memoryview(memory).cast("Q")
        self._begins = _HEAD_BYTES + _padded(self._words[_DOCUMENT_BYTES])
        self._end = self._begins + self._words[_LENGTH]

    @staticmethod
    def make(path: Path, size: int, first: int, document: Mapping[str, Any]) -> Segment:
        """An empty one with room for `size` bytes of elements, the first of which has the number `first`. Raises OSError: no room."""
        text = _text_of(document)
        unnamed = path.with_name(f".{path.name}")
        handle = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            size = _whole_pages(_HEAD_BYTES + _padded(len(text)) + size)
            os.posix_fallocate(handle, 0, size)
            memory = mmap.mmap(handle, size)
            _begin(memory, first, text)
            unnamed.rename(path)
        except BaseException:
            unnamed.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)
        return Segment(path, memory)

    @staticmethod
    def open(path: Path) -> Segment:
        """One that another process has made, and does not use again while this is there. Raises NoSegment, OSError."""
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            _hold(handle, path)
            size = os.fstat(handle).st_size
            if size < _HEAD_BYTES or size % 8:
                raise NoSegment(f"{path}: expected a segment of at least {_HEAD_BYTES} bytes, got {size}")
            memory = mmap.mmap(handle, size)
        finally:
            os.close(handle)
        found = memoryview(memory).cast("Q")
        if found[_MAGIC] != MAGIC or _HEAD_BYTES + _padded(found[_DOCUMENT_BYTES]) > size:
            raise NoSegment(f"{path}: expected a segment, got {bytes(memory[:_HEAD_BYTES])!r}")
        return Segment(path, memory)

    @property
    def first(self) -> int:
        """The number of its first element, or of the one that would be."""
        return self._words[_FIRST]

    @property
    def document(self) -> dict[str, Any]:
        """What its writer says of it. Raises NoSegment."""
        try:
            found = json.loads(self._memory[_HEAD_BYTES : _HEAD_BYTES + self._words[_DOCUMENT_BYTES]])
        except ValueError as error:
            raise NoSegment(f"{self.path}: its document cannot be read: {error}") from None
        if not isinstance(found, dict):
            raise NoSegment(f"{self.path}: expected an object as its document, got {found!r:.200}")
        return found

    def has_room(self, size: int) -> bool:
        """For an element of so many bytes?"""
        return self._end + size <= self.size

    def append(self, number: int, head: bytes, body: Any) -> int:
        """Where its body lies. There is room for it. Raises Sealed: it does not count."""
        size, at = 0 if body is None else len(body), self._end
        _ELEMENT.pack_into(self._memory, at, number, len(head), size)
        at += _ELEMENT.size
        self._memory[at : at + len(head)] = head
        at += _padded(len(head))
        if size:
            self._memory[at : at + size] = body
        self._end = at + _padded(size)
        self._words[_LENGTH] = self._end - self._begins
        self.check_open()
        return at

    def body(self, at: int, size: int) -> bytes:
        """Of an element that `append` has put there, copied."""
        return self._memory[at : at + size]

    def check_open(self) -> None:
        """Raises Sealed."""
        if self._words[_SEALED]:
            raise Sealed("another one goes on with what it has kept; what it sent last was not taken")

    @property
    def is_sealed(self) -> bool:
        return bool(self._words[_SEALED])

    def seal(self) -> None:
        """Nothing more counts, once `barrier` has passed."""
        self._words[_SEALED] = 1

    @property
    def is_partial(self) -> bool:
        """Is what comes behind its elements kept elsewhere?"""
        return bool(self._words[_PARTIAL])

    def leave_partial(self) -> None:
        """What comes is kept elsewhere."""
        self._words[_PARTIAL] = 1

    def elements(self) -> Iterator[Element]:
        """Those that count now. Raises NoSegment: the segment is cut short, or nonsense."""
        whole, at = memoryview(self._memory), self._begins
        end = at + self._words[_LENGTH]
        if end > self.size:
            raise NoSegment(f"{self.path}: expected {end} bytes, got {self.size}: it was cut short")
        while at < end:
            if at + _ELEMENT.size > end:
                raise NoSegment(f"{self.path}: its last element is cut short")
            number, head, body = _ELEMENT.unpack_from(self._memory, at)
            here = at + _ELEMENT.size
            behind = here + _padded(head)
            at = behind + _padded(body)
            if at > end:
                raise NoSegment(f"{self.path}: element {number} is cut short")
            yield Element(number, whole[here : here + head], whole[behind : behind + body])

    def remove(self) -> None:
        """What reads it goes on reading."""
        self.path.unlink(missing_ok=True)

    def retire(self, unnamed: Path) -> bool:
        """Nothing of it will be asked for; may its memory be used again (`begin_anew`)? If so it is there under that name, for which nobody
        looks. Raises OSError."""
        self.path.rename(unnamed)
        self.path = unnamed
        handle = os.open(unnamed, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(handle, fcntl.LOCK_UN)  # a child that was forked just now would hold it for as long as it lives
        except BlockingIOError:  # another process looks at it
            return False
        finally:
            os.close(handle)
        return not self.is_sealed

    @staticmethod
    def whole(size: int, document: Mapping[str, Any]) -> int:
        """Bytes of one with room for so many bytes of elements."""
        return _HEAD_BYTES + _padded(len(_text_of(document))) + size

    def fits(self, whole: int) -> bool:
        """Could it be one of so many bytes, without leaving most of it empty?"""
        return whole <= self.size <= 4 * whole

    def begin_anew(self, path: Path, first: int, document: Mapping[str, Any]) -> Segment:
        """An empty one in the memory of this, which is retired. Raises OSError."""
        _begin(self._memory, first, _text_of(document))
        self.path.rename(path)
        return Segment(path, self._memory)


def _text_of(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _begin(memory: mmap.mmap, first: int, text: bytes) -> None:
    """It has no elements yet, and no name."""
    memory[:_HEAD_BYTES] = struct.pack(f"<{HEAD_WORDS}Q", MAGIC, 0, 0, first, len(text), 0, 0, 0)
    memory[_HEAD_BYTES : _HEAD_BYTES + len(text)] = text


def _hold(handle: int, path: Path) -> None:
    """As long as that file is open, or mapped: both go when the process does. Raises OSError: it is another's by now, or none."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FileNotFoundError(errno.ENOENT, "its writer has just taken it back", str(path)) from None
    if not os.path.samestat(os.fstat(handle), os.stat(path)):
        raise FileNotFoundError(errno.ENOENT, "it is another one's by now", str(path))


def _whole_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def barrier() -> None:
    """What any thread of the machine has written before is seen by what is read behind it, and the other way round (membarrier(2)).

    Raises OSError: the kernel has none."""
    number = _MEMBARRIER.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"membarrier is not known for {platform.machine()}")
    if _libc().syscall(ctypes.c_long(number), ctypes.c_long(_GLOBAL), ctypes.c_long(0), ctypes.c_long(0)) != 0:
        raise OSError(ctypes.get_errno(), "membarrier")


@cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library
