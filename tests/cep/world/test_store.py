"""What every `Store` keeps to: the machine's, and the one in memory."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from cep.world.store import DiskFile, DiskStore, File, MemoryStore, Store, append_all


class Place:
    """A store, and a folder of it that is ours."""

    def __init__(self, store: Store, folder: str) -> None:
        self.store, self.folder = store, folder

    def __call__(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def write(self, name: str, data: bytes) -> None:
        file = self.store.create(self(name), overwrite=True)
        append_all(file, data)
        file.close()

    def read(self, name: str) -> bytes:
        file = self.store.open(self(name))
        try:
            return read_all(file)
        finally:
            file.close()


@pytest.fixture(params=["disk", "memory"])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "disk":
        return Place(DiskStore(), str(tmp_path))
    store = MemoryStore()
    store.make_folder("/ours")
    return Place(store, "/ours")


def error_of(act: Callable[[], object]) -> int | None:
    with pytest.raises(OSError) as raised:
        act()
    return raised.value.errno


def test_what_is_appended_is_read(at: Place) -> None:
    file = at.store.create(at("a"))
    for part in (b"one ", b"", b"two"):
        append_all(file, part)
    file.sync()
    assert file.size() == 7
    file.close()
    at.store.sync_folder(at.folder)
    assert at.read("a") == b"one two"


def test_a_part_is_read_where_it_is_asked_for(at: Place) -> None:
    at.write("a", b"0123456789")
    file, into = at.store.open(at("a")), bytearray(b"....")
    assert file.read_at(memoryview(into), 3) == 4 and into == b"3456"
    assert file.read_at(memoryview(into), 8) == 2 and into == b"8956"
    assert file.read_at(memoryview(into), 10) == 0 and file.read_at(memoryview(into), 99) == 0
    file.close()


def test_it_is_looked_at_where_it_lies(at: Place) -> None:
    """Whatever becomes of its name."""
    at.write("a", b"0123456789")
    at.write("empty", b"")
    file, empty = at.store.open(at("a")), at.store.open(at("empty"))
    data, nothing = file.map(), empty.map()
    for each in (file, empty):
        each.close()
    at.store.remove(at("a"))
    assert bytes(data) == b"0123456789" and bytes(nothing) == b"" and data.readonly


def test_what_cannot_be_read_is_an_error_and_does_not_end_the_process(tmp_path: Path) -> None:
    """A page that is first looked at when it is wanted would be SIGBUS. Here it is behind the end of a file that was cut meanwhile."""
    path = tmp_path / "a"
    path.write_bytes(bytes(3 << 20))
    opened = os.open(path, os.O_RDONLY)
    file = DiskFile(opened)
    with mmap.mmap(opened, 0, prot=mmap.PROT_READ) as mapped:
        os.truncate(path, 1 << 20)
        file._load(mapped, 0, 1 << 20)
        assert error_of(lambda: file._load(mapped, 1 << 20, 1 << 20)) == errno.EIO
    file.close()


def test_what_is_there_is_not_overwritten_unasked(at: Place) -> None:
    at.write("a", b"long ago")
    assert error_of(lambda: at.store.create(at("a"))) == errno.EEXIST
    assert at.read("a") == b"long ago"
    at.write("a", b"now")
    assert at.read("a") == b"now"


def test_a_file_is_renamed_over_another_and_goes_on(at: Place) -> None:
    at.write("b", b"old")
    file = at.store.create(at("a"))
    append_all(file, b"new")
    at.store.rename(at("a"), at("b"))
    append_all(file, b"er")
    file.close()
    assert at.read("b") == b"newer" and at.store.names(at.folder) == ["b"]


def test_a_file_that_is_removed_is_read_to_its_end_by_those_who_have_it(at: Place) -> None:
    at.write("a", b"1")
    file = at.store.open(at("a"))
    at.store.remove(at("a"))
    assert read_all(file) == b"1"
    file.close()
    assert at.store.names(at.folder) == []


def test_folders(at: Place) -> None:
    for _ in range(2):
        at.store.make_folder(at("x/y"))
    at.write("x/b", b"")
    at.write("x/a", b"")
    assert at.store.names(at("x")) == ["a", "b", "y"]
    assert at.store.names(at("x/y")) == []
    at.store.sync_folder(at("x"))


def test_there_is_room(at: Place) -> None:
    assert at.store.free_bytes(at.folder) > 0


def test_what_is_wrong_has_the_machines_number(at: Place) -> None:
    at.write("a", b"")
    at.store.make_folder(at("x"))
    store = at.store
    for number, act in (
        (errno.ENOENT, lambda: store.open(at("no"))),
        (errno.ENOENT, lambda: store.create(at("no/a"))),
        (errno.ENOENT, lambda: store.rename(at("no"), at("b"))),
        (errno.ENOENT, lambda: store.rename(at("a"), at("no/a"))),
        (errno.ENOENT, lambda: store.remove(at("no"))),
        (errno.ENOENT, lambda: store.names(at("no"))),
        (errno.ENOENT, lambda: store.sync_folder(at("no"))),
        (errno.ENOENT, lambda: store.free_bytes(at("no"))),
        (errno.ENOTDIR, lambda: store.names(at("a"))),
        (errno.ENOTDIR, lambda: store.create(at("a/b"))),
        (errno.ENOTDIR, lambda: store.make_folder(at("a/b"))),
        (errno.EEXIST, lambda: store.make_folder(at("a"))),
        (errno.EISDIR, lambda: store.create(at("x"), overwrite=True)),
        (errno.EEXIST, lambda: store.create(at("x"))),
    ):
        assert error_of(act) == number
    file = store.open(at("a"))
    assert error_of(lambda: file.append(memoryview(b"1"))) == errno.EBADF
    file.close()
    assert error_of(lambda: file.read_at(memoryview(bytearray(1)), 0)) == errno.EBADF


def test_a_write_may_be_cut_short() -> None:
    place = Place(MemoryStore(write_bytes_max=3), "")
    place.write("a", b"0123456789")
    assert place.read("a") == b"0123456789"


def read_all(file: File) -> bytes:
    """All that a small file holds."""
    into = bytearray(file.size())
    view, done = memoryview(into), 0
    while done < len(into) and (got := file.read_at(view[done:], done)):
        done += got
    return bytes(view[:done])


@dataclass
class Sipping:
    """A file of which no more than `most` bytes are read at once."""

    file: File
    most: int

    def read_at(self, into: memoryview, position: int) -> int:
        return self.file.read_at(into[: self.most], position)

    def size(self) -> int:
        return self.file.size()


def test_a_read_may_be_cut_short(at: Place) -> None:
    at.write("a", b"0123456789")
    file = at.store.open(at("a"))
    assert read_all(cast(File, Sipping(file, 3))) == b"0123456789"
    file.close()


def test_a_full_disk() -> None:
    store = MemoryStore(bytes_max=5)
    file = store.create("/a")
    assert file.append(memoryview(b"123")) == 3 and store.free_bytes("/") == 2
    assert file.append(memoryview(b"456")) == 2  # what there is room for
    assert error_of(lambda: file.append(memoryview(b"6"))) == errno.ENOSPC
    store.remove("/a")
    assert store.free_bytes("/") == 5
