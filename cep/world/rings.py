"""Rings: what the publishers of a process keep for readers whose queries recover, in a folder of memory that outlives the process.

```
<cluster's folder in /dev/shm>/sent/     the rings of all clients of this machine
    <ring>/                              of one process, whose number and birth stand in `owner`
        .free-<n>                        memory of segments, to be used again
        <first digits of keys>/          there may be thousands of logs, and who looks for one reads a folder
            <key>-<log>-<segment>        the elements of one log, in files (`cep.world.segments`)
            <key>-<log>.end              where that ends, once another process has sealed it
```

A *log* is what one publisher keeps for one reader. `key`: the reader and the name of the publisher, whichever attempt and incarnation it is
of; logs of one key follow each other by the numbers of their elements. Segments are taken as they are needed, each twice as large as the
one before, and given back when all that is in them is covered: memory of large ones is used again, for a page costs more at its first
touch than what is copied to it (1 ms for a MB, and 0.2). The last one stays as long as the log does: it says how far that came.

Where a sealed log ends is decided once, by who links its `.end` first: its writer may have been stopped in front of the instruction that
makes an element count, and do that when it wakes up, whereupon it hears that it does not. Who comes to the log later takes no more of it.
The `.end` stays as long as the ring, for what wakes up may begin a segment when the log has been removed.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

from cep.errors import ClusterError
from cep.world.births import born, machine
from cep.world.segments import Element, NoSegment, Segment, barrier, room_for

LOG = logging.getLogger(__name__)
FIRST_BYTES = 16 << 10  # there may be thousands of logs in which little is
SEGMENT_BYTES_MAX = 4 << 20  # beside one that a single element needs
SIZE_STEP = 64 << 10  # of such a one, so that others have its size
CONTROL_BYTES = 4 << 10  # that batches leave of a segment, so that a last word finds room
FREE_BYTES_MAX = 128 << 20  # of segments that are to be used again
FREE_BYTES_MIN = 256 << 10  # of one of them
_OWNER = "owner"
_NEW = "new-"
_END = ".end"
_FREE = ".free-"
_DIGITS = 2  # of a key, that name a folder


class RingFull(ClusterError):
    """No segment can be had."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: its number alone is given to another one some day."""

    machine: str
    pid: int
    born: str

    @staticmethod
    def ours() -> Owner:
        return Owner(machine(), os.getpid(), str(born(os.getpid())))

    @property
    def is_gone(self) -> bool:
        """It has ended. Of another machine it is never known."""
        return self.machine == machine() and born(self.pid) != self.born


def place_of(folder: Path) -> dict[str, Any]:
    """What says to another process which folder that is: two of one path may be on two machines, or in two containers."""
    there = folder.stat()
    return {"folder": str(folder), "machine": machine(), "device": there.st_dev, "inode": there.st_ino}


def is_here(place: Mapping[str, Any]) -> bool:
    """Do we see the folder that another process has described so, and may write to it?"""
    folder = Path(str(place.get("folder")))
    try:
        return place_of(folder) == dict(place) and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False


class Ring:
    """The one of this process, for all its threads. `bytes_max`: so much its segments may take together."""

    def __init__(self, folder: Path, name: str, owner: Owner, bytes_max: int) -> None:
        self.path, self.bytes, self.bytes_max = folder / name, 0, bytes_max
        self._logs, self._lock = 0, threading.Lock()
        self._free: list[Segment] = []  # the one that was given last at the end
        self._folders: set[str] = set()  # that are there
        self._freed = self._idle = 0  # so many ever; so many of the first that are there were not needed since `rest` was called last
        self._closed = False
        unnamed = folder / f"{_NEW}{name}"
        unnamed.mkdir(mode=0o700)
        (unnamed / _OWNER).write_text(json.dumps(asdict(owner)))
        unnamed.rename(self.path)

    def log(self, key: int, first: int, document: Mapping[str, Any]) -> RingLog:
        """A new log whose first element will have that number. Raises RingFull."""
        with self._lock:
            self._logs += 1
            name = f"{key:016x}-{self._logs:06d}"
        return RingLog(self, name, first, document)

    def take(self, name: str, size: int, first: int, document: Mapping[str, Any]) -> Segment:
        """Raises RingFull."""
        with self._lock:
            if self.bytes + size > self.bytes_max:
                raise RingFull(f"{self.path}: expected at most {self.bytes_max:,} bytes of what no commit covers; it has {self.bytes:,}")
            try:
                path = self._path(name)
                found = self._again(path, size, first, document) or self._made(path, size, first, document)
            except OSError as error:
                raise RingFull(f"{self.path}: no room for {size:,} bytes: {error}") from error
            self.bytes += found.size
            return found

    def _path(self, name: str) -> Path:
        """Of a segment; its folder is there."""
        path = _path_of(self.path, name)
        if path.parent.name not in self._folders:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            self._folders.add(path.parent.name)
        return path

    def _again(self, path: Path, size: int, first: int, document: Mapping[str, Any]) -> Segment | None:
        """One that was used before, if there is any of that size."""
        whole = Segment.whole(size, document)
        at = next((at for at in reversed(range(len(self._free))) if self._free[at].fits(whole)), None)
        if at is None:
            return None
        segment = self._free.pop(at)
        self._idle -= at < self._idle
        try:
            return segment.begin_anew(path, first, document)
        except OSError:  # a new one may be had, or tells why not
            segment.remove()
            return None

    def _made(self, path: Path, size: int, first: int, document: Mapping[str, Any]) -> Segment:
        if self.bytes + size + self._free_bytes > self.bytes_max:
            self._let_go(len(self._free))
        try:
            return Segment.make(path, size, first, document)
        except OSError:
            if not self._free:
                raise
            self._let_go(len(self._free))
            return Segment.make(path, size, first, document)

    def give(self, segment: Segment) -> None:
        with self._lock:
            self.bytes -= segment.size
            self._freed += 1
            if self._keeps(segment):
                self._free.append(segment)
            else:
                segment.remove()

    def _keeps(self, segment: Segment) -> bool:
        if self._closed or segment.size < FREE_BYTES_MIN or self._free_bytes + segment.size > FREE_BYTES_MAX:
            return False
        try:
            return segment.retire(self.path / f"{_FREE}{self._freed}")
        except OSError:  # the folder is gone
            return False

    def rest(self) -> None:
        """Lets go of memory that was free all the time since the last call."""
        with self._lock:
            self._let_go(self._idle)
            self._idle = len(self._free)

    def _let_go(self, count: int) -> None:
        """Of those that are free, the ones that have been so longest."""
        for segment in self._free[:count]:
            segment.remove()
        del self._free[:count]
        self._idle = min(self._idle, len(self._free))

    @property
    def _free_bytes(self) -> int:
        return sum(segment.size for segment in self._free)

    def close(self) -> None:
        """It stays if there is anything that no commit covers: then another process goes on with that."""
        with self._lock:
            self._closed = True
            self._let_go(len(self._free))
        with suppress(OSError):
            if all(name.endswith(_END) for name in _all_names(self.path)):
                shutil.rmtree(self.path)


class RingLog:
    """A log that this process writes."""

    def __init__(self, ring: Ring, name: str, first: int, document: Mapping[str, Any]) -> None:
        self.ring, self.name, self.document = ring, name, document
        self._taken = 0
        self._size = FIRST_BYTES
        self.segments = [self._segment(FIRST_BYTES, first)]

    def _segment(self, size: int, first: int) -> Segment:
        self._taken += 1
        return self.ring.take(f"{self.name}-{self._taken:08d}", size, first, self.document)

    def has_room(self, number: int, head: int, size: int) -> bool:
        """For a batch of so many bytes, the next to come? Takes the segment for it, if need be."""
        wanted = room_for(head, size) + CONTROL_BYTES
        if self.segments[-1].has_room(wanted):
            return True
        try:
            self._grow(number, wanted)
        except RingFull:
            return False
        return True

    def _grow(self, number: int, wanted: int) -> None:
        size = min(2 * self._size, SEGMENT_BYTES_MAX)
        self.segments.append(self._segment(size if wanted <= size else -(-wanted // SIZE_STEP) * SIZE_STEP, number))
        self._size = size

    def append(self, number: int, head: bytes, body: Any) -> tuple[Segment, int]:
        """Where its body is. Raises RingFull, and then nothing was done; Sealed."""
        size = room_for(len(head), 0 if body is None else len(body))
        if not self.segments[-1].has_room(size):
            self._grow(number, size)
        last = self.segments[-1]
        at = last.append(number, head, body)
        if len(self.segments) > 1:  # it may have been sealed before it had this one
            self.segments[-2].check_open()
        return last, at

    def note(self, number: int, key: str, value: Mapping[str, Any]) -> None:
        """What the documents of later segments say under `key` holds from that element on. Raises RingFull, Sealed."""
        self.document = {**self.document, key: value}
        self.append(number, b"", json.dumps(value, separators=(",", ":")).encode())

    def release(self, first: int) -> None:
        """What comes before that number is covered."""
        while len(self.segments) > 1 and self.segments[1].first <= first and not self._is_sealed:
            self.ring.give(self.segments.pop(0))

    def remove(self) -> None:
        """Nothing of it will be asked for."""
        for segment in () if self._is_sealed else self.segments:
            self.ring.give(segment)

    def abandon(self) -> None:
        """What was kept here is kept in our own memory now, and nothing more comes: a reader is not to take it for all there is. Raises
        Sealed: one has."""
        self.segments[-1].leave_partial()
        for segment in self.segments[-2:]:
            segment.check_open()
        for segment in self.segments[:-1]:
            self.ring.give(segment)

    @property
    def _is_sealed(self) -> bool:
        """Then it is another process's. The last one may have been begun behind that."""
        return any(segment.is_sealed for segment in self.segments[-2:])


class KeptLog:
    """A log that another process has written, whose segments are sealed. `end`: the number of the first element that does not count; None:
    all do that are there now. Raises NoSegment: there are none, or one is missing or cut."""

    def __init__(self, segments: Sequence[Segment], end: int | None = None) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.path.name)
        if not self._segments:
            raise NoSegment("expected at least one segment, got none")
        self.document = self._segments[0].document
        self.first = self.end = self._segments[0].first
        if end is None and self._segments[-1].is_partial:
            raise NoSegment(f"{self._segments[-1].path}: the rest was kept by its process, in its own memory")
        for segment in self._segments:
            if segment.first != self.end:
                raise NoSegment(f"{segment.path}: expected to begin at element {self.end}, got {segment.first}")
            for element in segment.elements():
                if end is not None and self.end >= end:
                    break
                self._count(segment, element)

    def _count(self, segment: Segment, element: Element) -> None:
        if element.number != self.end:
            raise NoSegment(f"{segment.path}: expected element {self.end}, got {element.number}")
        self.end += not element.is_note

    def elements(self) -> Iterator[Element]:
        """From `first` to `end`, with what is noted between them."""
        found = chain.from_iterable(segment.elements() for segment in self._segments)
        return takewhile(lambda element: element.number < self.end, found)

    def remove(self) -> None:
        for segment in self._segments:
            segment.remove()


class Rings:
    """Those of all clients of this machine, as another process sees them. `is_gone`: has the process of a ring ended?"""

    def __init__(self, folder: Path, is_gone: Callable[[Owner], bool] = lambda owner: owner.is_gone) -> None:
        self.folder, self._is_gone = folder, is_gone
        self._owners: dict[str, Owner] = {}

    @property
    def place(self) -> dict[str, Any]:
        """For a client that should have its ring here. Raises OSError: the folder is gone."""
        return place_of(self.folder)

    def orphaned(self) -> list[str]:
        """The names of those whose processes have ended."""
        there = {name for name in _names(self.folder) if not name.startswith(_NEW)}
        self._owners = {name: owner for name, owner in self._owners.items() if name in there}
        return [name for name in sorted(there) if (owner := self._owner(name)) is not None and self._is_gone(owner)]

    def all(self) -> list[str]:
        return sorted(name for name in _names(self.folder) if not name.startswith(_NEW))

    def _owner(self, name: str) -> Owner | None:
        if name not in self._owners:
            try:
                self._owners[name] = Owner(**json.loads((self.folder / name / _OWNER).read_text()))
            except (OSError, ValueError, TypeError) as error:
                LOG.warning("%s: no process can be told whose ring this is: %s", self.folder / name, error)
                return None
        return self._owners[name]

    def logs(self, ring: str, key: int | None = None) -> list[str]:
        """The names of the logs in it, all or those of one reader and publisher, in the order in which they were begun."""
        path, begins = self.folder / ring, "" if key is None else f"{key:016x}-"
        names = _all_names(path) if key is None else _names(_path_of(path, begins).parent)
        # One that begins with a dot was not ready when its process ended.
        return sorted({name.rpartition("-")[0] for name in names if name.startswith(begins) and name.count("-") == 2 and name[0] != "."})

    def document(self, ring: str, log: str) -> dict[str, Any] | None:
        """What its writer says of it; None: it is gone, or no log."""
        for path in self._paths(ring, log):
            try:
                return Segment.open(path).document
            except FileNotFoundError:
                continue  # its writer has just let go of it
            except (OSError, NoSegment):
                return None
        return None

    def _paths(self, ring: str, log: str) -> list[Path]:
        folder = _path_of(self.folder / ring, log).parent
        return [folder / name for name in sorted(_names(folder)) if name.rpartition("-")[0] == log]

    def is_sealed(self, ring: str, log: str) -> bool:
        return any(map(_is_sealed, self._paths(ring, log)))

    def sealed(self, ring: str, log: str) -> KeptLog:
        """It, once nothing more counts of it. Raises NoSegment, OSError."""
        segments: dict[Path, Segment] = {}
        while new := [path for path in self._paths(ring, log) if path not in segments]:
            for path in new:
                with suppress(FileNotFoundError):  # its writer has just let go of it; no name comes again
                    segments[path] = Segment.open(path)
                    segments[path].seal()
            if (owner := self._owner(ring)) is None or not self._is_gone(owner):
                barrier()  # it may be in the middle of writing, and have begun a segment
        mark = _path_of(self.folder / ring, f"{log}{_END}")
        if (decided := _read(mark)) is None:
            found = KeptLog(list(segments.values()))
            decided = _decide(mark, {"end": found.end, "document": found.document})
        return KeptLog(list(segments.values()), decided["end"])

    def ended(self, ring: str, key: int) -> Iterator[dict[str, Any]]:
        """The documents of logs of one reader and publisher of which it was decided where they end, removed ones too."""
        begins = f"{key:016x}-"
        folder = _path_of(self.folder / ring, begins).parent
        marks = [name for name in _names(folder) if name.startswith(begins) and name.endswith(_END)]
        yield from (found["document"] for name in sorted(marks) if (found := _read(folder / name)) is not None)

    def sweep(self, is_over: Callable[[Mapping[str, Any]], bool]) -> None:
        """Removes what processes that have ended have kept and nothing will ask for, as `is_over` says of a log's document."""
        for ring in self.orphaned():
            for log in self.logs(ring):
                if (document := self.document(ring, log)) is not None and is_over(document):
                    for path in self._paths(ring, log):
                        path.unlink(missing_ok=True)
            for name in _names(self.folder / ring):
                if name.startswith(_FREE):
                    (self.folder / ring / name).unlink(missing_ok=True)
            if not self.logs(ring):
                shutil.rmtree(self.folder / ring, ignore_errors=True)


def _path_of(ring: Path, name: str) -> Path:
    """Of a segment, or of where a log ends."""
    return ring / name[:_DIGITS] / name


def _all_names(ring: Path) -> list[str]:
    """Of all that is there of logs."""
    return [name for folder in _names(ring) if len(folder) == _DIGITS for name in _names(ring / folder)]


def _is_sealed(path: Path) -> bool:
    """One that its writer has just let go of is not."""
    try:
        return Segment.open(path).is_sealed
    except FileNotFoundError:
        return False


def _decide(mark: Path, said: dict[str, Any]) -> dict[str, Any]:
    """That, unless another process was first: what it said."""
    own = mark.with_name(f".{mark.name}-{os.getpid()}")
    own.write_text(json.dumps(said, separators=(",", ":")))
    try:
        os.link(own, mark)
    except FileExistsError:
        said = _read(mark) or said
    finally:
        own.unlink(missing_ok=True)
    return said


def _read(mark: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(mark.read_text())
        return found
    except FileNotFoundError:
        return None


def _names(folder: Path) -> list[str]:
    """None, where it is not there. Raises OSError: it cannot be looked at, which does not say that nothing is there."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
