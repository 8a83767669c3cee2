"""Segments: what was written whole counts, whatever becomes of the process that writes; what is sealed gets no longer."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cep.world import segments
from cep.world.segments import HEAD_WORDS, NoSegment, Sealed, Segment, barrier, room_for


def made(folder: Path, size: int = 4096, first: int = 0) -> Segment:
    return Segment.make(folder / "log-00000001", size, first, {"publisher": "p"})


def filled(folder: Path, elements: int = 3) -> Segment:
    segment = made(folder)
    for number in range(elements):
        segment.append(number, b"head%d" % number, b"b" * number)
    return segment


def found(segment: Segment) -> list[tuple[int, bytes, bytes]]:
    return [(number, bytes(head), bytes(body)) for number, head, body in segment.elements()]


def test_another_process_reads_what_was_written(tmp_path: Path) -> None:
    segment = filled(tmp_path)
    other = Segment.open(segment.path)
    assert found(other) == [(0, b"head0", b""), (1, b"head1", b"b"), (2, b"head2", b"bb")]
    assert (other.first, other.document) == (0, {"publisher": "p"})


def test_it_sees_what_comes_later(tmp_path: Path) -> None:
    segment = filled(tmp_path)
    other = Segment.open(segment.path)
    segment.append(3, b"later", None)
    assert found(other)[-1] == (3, b"later", b"")


def test_a_body_is_read_back_where_it_was_put(tmp_path: Path) -> None:
    segment = made(tmp_path)
    places = [(segment.append(number, b"h", bytes([number]) * number), number) for number in range(20)]
    assert [segment.body(at, size) for at, size in places] == [bytes([number]) * number for number in range(20)]


def test_what_is_written_but_for_its_length_does_not_count(tmp_path: Path) -> None:
    """As of a process that is killed in front of its last instruction."""
    segment = filled(tmp_path)
    words = memoryview(bytearray(segment.path.read_bytes())).cast("Q")
    before = words[1]
    segment.append(3, b"head", b"whole")
    segment._words[1] = before
    assert len(found(Segment.open(segment.path))) == 3


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 4000])
def test_it_knows_how_much_it_has_room_for(tmp_path: Path, size: int) -> None:
    segment = made(tmp_path, room_for(4, size))
    while segment.has_room(room_for(4, size)):
        segment.append(0, b"head", b"x" * size)
    assert len(found(Segment.open(segment.path))) >= 1


def test_one_that_is_sealed_says_so_to_who_writes(tmp_path: Path) -> None:
    segment = filled(tmp_path)
    Segment.open(segment.path).seal()
    with pytest.raises(Sealed):
        segment.append(3, b"late", b"late")


def test_a_segment_that_was_cut_is_none(tmp_path: Path) -> None:
    segment = filled(tmp_path)
    segment.append(3, b"head", b"x" * 3000)
    os.truncate(segment.path, 2048)
    with pytest.raises(NoSegment, match="cut short"):
        found(Segment.open(segment.path))


@pytest.mark.parametrize("data", [b"", b"x" * 8, b"x" * 8 * HEAD_WORDS, b"x" * 4096, bytes(4096)])
def test_what_is_no_segment_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "log-00000001"
    path.write_bytes(data)
    with pytest.raises(NoSegment, match="expected a segment"):
        Segment.open(path)


def test_lengths_that_lie_are_noticed(tmp_path: Path) -> None:
    segment = filled(tmp_path)
    at = segment._begins
    for lie in (1 << 40, 2**64 - 1):
        segment._memory[at + 16 : at + 24] = lie.to_bytes(8, "little")
        with pytest.raises(NoSegment, match="cut short"):
            found(Segment.open(segment.path))


def test_it_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    made(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["log-00000001"]


def test_no_room_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        made(tmp_path, 1 << 60)
    assert not list(tmp_path.iterdir())


def test_memory_is_used_again_when_nobody_looks_at_it(tmp_path: Path) -> None:
    first = made(tmp_path)
    first.append(0, b"head", b"body")
    assert first.retire(tmp_path / "free") and not (tmp_path / "log-00000001").exists()
    again = first.begin_anew(tmp_path / "log-00000002", 7, {"another": 1})
    assert (found(again), again.first, again.document) == ([], 7, {"another": 1})
    again.append(7, b"h", b"b")
    assert found(Segment.open(tmp_path / "log-00000002")) == [(7, b"h", b"b")]
    assert [path.name for path in tmp_path.iterdir()] == ["log-00000002"]


def test_memory_at_which_another_process_looks_is_not_used_again(tmp_path: Path) -> None:
    first = made(tmp_path)
    first.append(0, b"head", b"body")
    looked_at = Segment.open(first.path)
    assert not first.retire(tmp_path / "free")
    assert found(looked_at) == [(0, b"head", b"body")]


def test_nor_is_that_of_a_sealed_one(tmp_path: Path) -> None:
    first = made(tmp_path)
    Segment.open(first.path).seal()
    gc.collect()
    assert not first.retire(tmp_path / "free")


def test_a_child_that_is_forked_meanwhile_keeps_nobody_from_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, flock, children = made(tmp_path), fcntl.flock, list[int]()

    def forking(handle: int, how: int) -> None:
        flock(handle, how)
        if how & fcntl.LOCK_EX:
            children.append(_forked())

    monkeypatch.setattr(segments.fcntl, "flock", forking)
    try:
        assert first.retire(tmp_path / "free")
        first.begin_anew(tmp_path / "log-00000002", 0, {})
        assert found(Segment.open(tmp_path / "log-00000002")) == [] and children
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _forked() -> int:
    """A child that does nothing, with all that we have open."""
    if child := os.fork():
        return child
    while True:
        signal.pause()


def test_one_that_is_retired_between_its_name_and_the_look_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, flock = made(tmp_path), fcntl.flock

    def late(handle: int, how: int) -> None:
        if how & fcntl.LOCK_SH:
            assert first.retire(tmp_path / "free")
            first.begin_anew(tmp_path / "log-00000002", 7, {})
        flock(handle, how)

    path = first.path
    monkeypatch.setattr(segments.fcntl, "flock", late)
    with pytest.raises(FileNotFoundError):
        Segment.open(path)


WRITER = """
import sys
from pathlib import Path
from cep.world.segments import Sealed, Segment

segment, number = Segment.make(Path(sys.argv[1]), 512 << 20, 0, {}), 0
print(flush=True)
try:
    while segment.has_room(4096):
        segment.append(number, b"head", number.to_bytes(8, "little") * (number % 300))
        number += 1
except Sealed:
    print(number, flush=True)
"""


def writer(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "\n"
    return process


def test_what_is_sealed_while_it_is_written_counts_or_its_writer_knows(tmp_path: Path) -> None:
    """The number at which the writer was refused is the number of those that count, or one less: what it wrote last may count."""
    for attempt in range(5):
        path = tmp_path / f"log-{attempt}"
        process = writer(path)
        segment = Segment.open(path)
        while len(found(segment)) < 50:
            pass
        segment.seal()
        barrier()
        count = len(found(segment))
        told, _ = process.communicate(timeout=60)
        assert int(told) in (count - 1, count)
        assert found(segment)[:count] == [(n, b"head", n.to_bytes(8, "little") * (n % 300)) for n in range(count)]


def test_of_a_process_that_is_killed_all_that_counts_is_whole(tmp_path: Path) -> None:
    for attempt in range(5):
        path = tmp_path / f"log-{attempt}"
        process = writer(path)
        segment = Segment.open(path)
        while len(found(segment)) < 20 * (attempt + 1):
            pass
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        there = found(segment)
        assert there == [(n, b"head", n.to_bytes(8, "little") * (n % 300)) for n in range(len(there))]
