"""What is written to an archive is there whole, or is refused by its name."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from cep.errors import ClusterError
from cep.world.archive import Archive
from cep.world.store import DiskStore, MemoryStore, Store


@pytest.fixture(params=["disk", "memory"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    store: Store = DiskStore(own=True) if request.param == "disk" else MemoryStore()
    return Archive(store, f"{tmp_path}/q.1")


def test_parts_are_written_one_behind_the_other(archive: Archive) -> None:
    written = archive.write("piece", [b"0123", memoryview(b"456"), b""])
    assert written == (zlib.crc32(b"0123456"), 7)
    assert bytes(archive.read("piece", written.crc)) == b"0123456"
    assert archive.store.names(archive.folder) == ["piece"]


def test_what_was_not_written_so_is_refused(archive: Archive) -> None:
    crc = archive.write("piece", [b"0123"]).crc
    with pytest.raises(ClusterError, match=f"piece' is not what was written: expected CRC 00000000, got {crc:08x}"):
        archive.read("piece", 0)
    with pytest.raises(ClusterError, match="piece' cannot be written: it is there already"):
        archive.write("piece", [b"4"])
    with pytest.raises(ClusterError, match="other' cannot be read: No such file"):
        archive.read("other", crc)


def test_a_full_disk_leaves_nothing_behind() -> None:
    archive = Archive(MemoryStore(bytes_max=10), "/c")
    with pytest.raises(ClusterError, match="piece' cannot be written: No space left"):
        archive.write("piece", [b"01234567", b"89012"])
    assert archive.store.names("/c") == []
