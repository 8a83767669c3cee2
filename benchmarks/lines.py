"""A digest of the lines of text files that does not depend on their order or on which file they are in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cep.kernels.jit import inlined, kernel

_BLOCK_BYTES = 16 << 20
_NEWLINE = 10


def digest(folder: Path) -> str:
    """How many lines all files below `folder` have, and the sum of the hashes of them all."""
    found = np.zeros(2, np.uint64)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        for block in _whole_lines(path):
            add_lines(np.frombuffer(block, np.uint8), found)
    return f"{found[0]} lines, {found[1]:016x}"


@inlined
def _mixed(word: np.uint64) -> np.uint64:
    """splitmix64: every bit of the result depends on every bit of the word."""
    word = word + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@kernel("void(const uint8[:], uint64[:])")
def add_lines(text: np.ndarray, found: np.ndarray) -> None:
    """Adds to `found` how many lines `text` has, which ends with a newline, and their hashes: bytes are the digits of a polynomial."""
    value, seen, total = np.uint64(0), np.uint64(0), np.uint64(0)
    for i in range(len(text)):
        byte = text[i]
        if byte == _NEWLINE:
            total += _mixed(value)
            seen += np.uint64(1)
            value = np.uint64(0)
        else:
            value = (value + np.uint64(byte) + np.uint64(1)) * np.uint64(0xD6E8FEB86659FD93)
    found[0] += seen
    found[1] += total


def _whole_lines(path: Path) -> Iterator[bytes]:
    """The file in pieces that end at newlines; a last line without one gets it."""
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            whole = block + file.readline()
            yield whole if whole.endswith(b"\n") else whole + b"\n"
