"""Files that are written once: whole or not at all, and what was damaged says so."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from cep.errors import ClusterError
from cep.world.archive import Archive
from cep.world.store import DiskStore, MemoryStore, Store, append_all

DATA = b"a piece" * 1000


@pytest.fixture(params=["disk", "memory"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    store: Store = DiskStore() if request.param == "disk" else MemoryStore()
    return Archive(store, f"{tmp_path}/pieces")


def test_what_is_written_is_read_by_its_crc(archive: Archive) -> None:
    crc = archive.write("1", DATA)
    assert crc == zlib.crc32(DATA)
    assert archive.write("none", b"") == 0
    assert (archive.read("1", crc), archive.read("none", 0)) == (DATA, b"")
    assert sorted(archive.store.names(archive.folder)) == ["1", "none"]


def test_no_name_is_written_twice(archive: Archive) -> None:
    crc = archive.write("1", DATA)
    with pytest.raises(ClusterError, match="pieces/1' cannot be written: it is there already"):
        archive.write("1", b"other")
    assert archive.read("1", crc) == DATA


def test_what_was_left_half_written_is_written_over(archive: Archive) -> None:
    archive.store.make_folder(archive.folder)
    half = archive.store.create(f"{archive.folder}/1.writing", overwrite=True)
    append_all(half, DATA + DATA)
    half.close()
    assert archive.read("1", archive.write("1", DATA)) == DATA
    assert list(archive.store.names(archive.folder)) == ["1"]


def test_what_is_not_what_was_written_says_so(archive: Archive) -> None:
    crc = archive.write("1", DATA)
    with pytest.raises(ClusterError, match=f"pieces/1' is not what was written: expected CRC {crc + 1:08x}, got {crc:08x}"):
        archive.read("1", crc + 1)
    with pytest.raises(ClusterError, match="pieces/2' cannot be read"):
        archive.read("2", crc)


def test_only_what_is_to_go_is_swept(archive: Archive) -> None:
    assert archive.sweep(lambda name: True) == 0  # there is no folder yet
    kept = archive.write("b2", DATA)
    for name in ("a1", "a2"):
        archive.write(name, DATA)
    assert archive.sweep(lambda name: name.startswith("a")) == 2
    assert archive.read("b2", kept) == DATA
    assert list(archive.store.names(archive.folder)) == ["b2"]
