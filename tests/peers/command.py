"""What a peer's command does: random cases, asked of both sides."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.java import JavaProgram
from cep.kernels.jit import interpreted
from tests.peers.java import JavaPeer

C = TypeVar("C")


def compared(
    program: JavaProgram, drawn: Callable[[int], C], ours: Callable[[C], Counter[Any]], theirs: Callable[[JavaPeer, C], Counter[Any]]
) -> None:
    """Prints each difference, and how many there are."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    different = matches = 0
    with tempfile.TemporaryDirectory() as folder, JavaPeer.running(program, Path(folder)) as peer, interpreted():
        for number in range(asked.cases):
            case = drawn(asked.seed * 1_000_003 + number)
            mine, others = ours(case), theirs(peer, case)
            matches += mine.total()
            if mine != others:
                different += 1
                print(number, case, f"ours alone: {mine - others}", f"theirs alone: {others - mine}", sep="\n  ", flush=True)
    print(f"{asked.cases} cases, {matches} matches, {different} differ")
