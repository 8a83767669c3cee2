"""Files of queries are below the cluster's folders, whatever stands at their path when they are opened."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cep.dataflow.sources.opening import format_of
from cep.errors import ClusterError
from cep.model.schema import Schema
from cep.model.streams import ArrowFiles, JsonLinesFiles, ParquetFiles, Stream, TextFiles
from cep.world.confined import OUTSIDE, confine, open_to_read
from cep.world.store import DiskStore, ReadableFile, append_all

SECRET = b"root:x:0:0\n"


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A cluster's folder, beside one that is none of its, with a link to that in it."""
    folder = tmp_path / "data"
    for each in (folder, folder / "sub", tmp_path / "outside"):
        each.mkdir()
    (tmp_path / "outside" / "passwd").write_bytes(SECRET)
    (folder / "own").write_bytes(b"1\n")
    (folder / "to-own").symlink_to("own")
    (folder / "to-passwd").symlink_to("../outside/passwd")
    (folder / "to-outside").symlink_to("../outside")
    confine([str(folder)])
    yield folder
    confine(None)


def read(path: Path | str) -> bytes:
    with os.fdopen(open_to_read(str(path)), "rb") as file:
        return file.read()


def test_what_is_inside_is_opened_behind_links_too(data: Path) -> None:
    assert read(data / "own") == read(data / "to-own") == read(data / "sub" / ".." / "own") == b"1\n"
    with ReadableFile(DiskStore().open(str(data / "to-own"))) as there:
        (data / "to-own").unlink()
        (data / "to-own").symlink_to("../outside/passwd")
        assert there.read() == b"1\n"


@pytest.mark.parametrize(
    "path", ["to-passwd", "to-outside/passwd", "../outside/passwd", "sub/../../outside/passwd", "/etc/passwd", "../none"]
)
def test_what_is_outside_is_not_whether_it_exists_or_not(data: Path, path: str) -> None:
    wanted = str(data / path)
    with pytest.raises(PermissionError, match=OUTSIDE):
        open_to_read(wanted)
    with pytest.raises(PermissionError, match=OUTSIDE):
        DiskStore().open(wanted)
    for files in (TextFiles((wanted,)), JsonLinesFiles((wanted,)), ParquetFiles((wanted,)), ArrowFiles((wanted,))):
        stream = Stream("s", Schema.of({"n": "int64"}), files=files)
        with pytest.raises(ClusterError, match=OUTSIDE):
            list(format_of(stream, ("n",), DiskStore()).cut(wanted, 1))


def test_a_file_that_is_not_there_is_missing_not_outside(data: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_to_read(str(data / "none"))


def test_no_race_leads_outside(data: Path) -> None:
    """A thread puts a link in the file's place and takes it back, as fast as it can."""
    swapped, over = data / "swapped", threading.Event()

    def swap() -> None:
        while not over.is_set():
            for target in ("own", "../outside/passwd"):
                (data / "new").symlink_to(target)
                (data / "new").rename(swapped)

    swapped.symlink_to("own")
    thread = threading.Thread(target=swap)
    thread.start()
    outcomes = set()
    for _ in range(3000):
        try:
            outcomes.add(read(swapped))
        except PermissionError:
            outcomes.add(b"refused")
    over.set()
    thread.join()
    assert outcomes == {b"1\n", b"refused"}


def test_nothing_is_written_outside_either(data: Path) -> None:
    store, outside = DiskStore(), data.parent / "outside"
    for path in (data / "to-outside" / "new", outside / "new", data / ".." / "outside" / "new"):
        with pytest.raises(PermissionError, match=OUTSIDE):
            store.create(str(path))
    with pytest.raises(OSError):
        store.create(str(data / "to-passwd"), overwrite=True)
    file = store.create(str(data / "sub" / ".staged"))
    append_all(file, b"x")
    file.close()
    for path in (data / "to-outside" / "moved", outside / "moved"):
        with pytest.raises(PermissionError, match=OUTSIDE):
            store.rename(str(data / "sub" / ".staged"), str(path))
    with pytest.raises(PermissionError, match=OUTSIDE):
        store.remove(str(data / "to-outside" / "passwd"))
    store.rename(str(data / "sub" / ".staged"), str(data / "sub" / "done"))
    assert (data / "sub" / "done").read_bytes() == b"x"
    assert [path.name for path in outside.iterdir()] == ["passwd"] and (outside / "passwd").read_bytes() == SECRET
