"""A digest of the lines of text files that does not depend on their order or on which file they are in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

_BLOCK_BYTES = 16 << 20
_NEWLINE = 10


def digest(folder: Path) -> str:
    """How many lines all files below `folder` have, and the sum of the hashes of them all."""
    count = total = 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        for block in _whole_lines(path):
            hashes = hashed(np.frombuffer(block, np.uint8))
            count, total = count + len(hashes), (total + int(hashes.sum(dtype=np.uint64))) % (1 << 64)
    return f"{count} lines, {total:016x}"


def hashed(text: np.ndarray) -> np.ndarray:
    """uint64, one for each line of `text` (uint8, ending with a newline): its bytes weighted by position, then mixed."""
    ends = np.flatnonzero(text == _NEWLINE)
    starts = np.concatenate([[0], ends[:-1] + 1])
    position = np.arange(len(text)) - np.repeat(starts, ends - starts + 1)
    weighted = (text + np.uint64(1)) * _mixed(position.astype(np.uint64))
    return _mixed(np.add.reduceat(weighted, starts))


def _mixed(words: np.ndarray) -> np.ndarray:
    """splitmix64: every bit of the result depends on every bit of the word."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _whole_lines(path: Path) -> Iterator[bytes]:
    """The file in pieces that end at newlines; a last line without one gets it."""
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            whole = block + file.readline()
            yield whole if whole.endswith(b"\n") else whole + b"\n"
