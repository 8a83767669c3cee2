"""Files that are written once: whole or not at all, and what was damaged says so."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from cep.errors import ClusterError
from cep.world.archive import Archive
from cep.world.store import DiskStore, MemoryStore, Store, append_all

DATA = b"a piece" * 1000


@pytest.fixture(params=["disk", "memory"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    store: Store = DiskStore(own=True) if request.param == "disk" else MemoryStore()
    return Archive(store, f"{tmp_path}/q.1")


def test_parts_are_written_one_behind_the_other(archive: Archive) -> None:
    written = archive.write("piece", [b"0123", memoryview(b"456"), b""])
    assert written == (zlib.crc32(b"0123456"), 7)
    assert bytes(archive.read("piece", written.crc)) == b"0123456"
    assert archive.write("none", []) == (0, 0)
    assert bytes(archive.read("none", 0)) == b""
    assert sorted(archive.store.names(archive.folder)) == ["none", "piece"]


def test_no_name_is_written_twice(archive: Archive) -> None:
    crc = archive.write("1", [DATA]).crc
    with pytest.raises(ClusterError, match=r"q\.1/1' cannot be written: it is there already"):
        archive.write("1", [b"other"])
    assert bytes(archive.read("1", crc)) == DATA


def test_what_was_left_half_written_is_written_over(archive: Archive) -> None:
    archive.store.make_folder(archive.folder)
    half = archive.store.create(f"{archive.folder}/1.writing", overwrite=True)
    append_all(half, DATA + DATA)
    half.close()
    assert bytes(archive.read("1", archive.write("1", [DATA]).crc)) == DATA
    assert list(archive.store.names(archive.folder)) == ["1"]


def test_what_is_not_what_was_written_says_so(archive: Archive) -> None:
    crc = archive.write("1", [DATA]).crc
    with pytest.raises(ClusterError, match=rf"q\.1/1' is not what was written: expected CRC {crc + 1:08x}, got {crc:08x}"):
        archive.read("1", crc + 1)
    with pytest.raises(ClusterError, match=r"q\.1/2' cannot be read: No such file"):
        archive.read("2", crc)


def test_only_what_is_to_go_is_swept(archive: Archive) -> None:
    assert archive.sweep(lambda name: True) == 0  # there is no folder yet
    kept = archive.write("b2", [DATA]).crc
    for name in ("a1", "a2"):
        archive.write(name, [DATA])
    assert archive.sweep(lambda name: name.startswith("a")) == 2
    assert bytes(archive.read("b2", kept)) == DATA
    assert list(archive.store.names(archive.folder)) == ["b2"]


def test_a_full_disk_leaves_nothing_behind() -> None:
    archive = Archive(MemoryStore(bytes_max=10), "/c")
    with pytest.raises(ClusterError, match="piece' cannot be written: No space left"):
        archive.write("piece", [b"01234567", b"89012"])
    assert archive.store.names("/c") == []


def test_parts_that_cannot_be_made_leave_nothing_behind(archive: Archive) -> None:
    def parts() -> Iterator[bytes]:
        yield DATA
        raise MemoryError

    with pytest.raises(MemoryError):
        archive.write("piece", parts())
    assert list(archive.store.names(archive.folder)) == []
