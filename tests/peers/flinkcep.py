"""FlinkCEP 2.3 as a peer: its matches of the same cases. Needs a JDK and Maven, which brings its jars.

`python -m tests.peers.flinkcep --cases 2000 [--seed 1]` prints each difference, and how many there are.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.peers.pattern_cases import Case, Part, counted, drawn, ours

VERSION = "2.3.0"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>peers</groupId><artifactId>peers</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.flink</groupId><artifactId>flink-cep</artifactId><version>{0}</version></dependency>
<dependency><groupId>org.apache.flink</groupId><artifactId>flink-streaming-java</artifactId><version>{0}</version></dependency>
</dependencies></project>
"""


class FlinkCep:
    """Its automaton, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @staticmethod
    def build(folder: Path) -> None:
        """Raises RuntimeError: Maven or the compiler says no."""
        (folder / "pom.xml").write_text(_POM.format(VERSION))
        for command in (
            ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"],
            ["javac", "-d", "out", "-cp", "lib/*", str(Path(__file__).parent / "Matches.java")],
        ):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"{command[0]} ended with status {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")

    @staticmethod
    @contextmanager
    def running(folder: Path) -> Iterator[FlinkCep]:
        """`folder`: where it was built."""
        command = ["java", "--add-opens", "java.base/java.util=ALL-UNNAMED", "-cp", "out:lib/*", "Matches"]
        with subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            try:
                yield FlinkCep(process)
            finally:
                process.kill()

    def matches(self, case: Case) -> Counter[tuple[tuple[str, tuple[int, ...]], ...]]:
        """Of a case with `within` as Flink has it, which leaves out its end. Raises RuntimeError: it cannot do that one; says why."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n".join(_lines(case)) + "\n")
        self._process.stdin.flush()
        found = []
        for line in self._process.stdout:
            kind, *words = line.split()
            if kind == "end":
                return counted(found)
            if kind == "error":
                found, error = [], line.strip()
                self._process.stdout.readline()
                raise RuntimeError(error)
            split = (word.split(":") for word in words)
            found.append({name: tuple(map(int, rows.split(","))) for name, rows in split})
        raise RuntimeError(f"FlinkCEP ended with status {self._process.wait()}")


def _lines(case: Case) -> Iterator[str]:
    yield f"case {case.after} {case.named or '-'} {case.within + 1} {len(case.parts)}"
    for part in case.parts:
        yield _line(part)
    yield f"rows {len(case.rows)}"
    for row in case.rows:
        yield f"{row.time} {row.kind} {row.value}"


def _line(part: Part) -> str:
    never, edge = part.never or (-1, "-")
    words: Sequence[object] = (part.name, part.edge, part.kind, part.than or "-", part.times, part.inner, int(part.optional), never, edge)
    return f"part {' '.join(map(str, words))}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        FlinkCep.build(Path(folder))
        with FlinkCep.running(Path(folder)) as peer:
            for number in range(asked.cases):
                case = drawn(random.Random(asked.seed * 1_000_003 + number))
                mine, theirs = ours(case), peer.matches(case)
                if mine != theirs:
                    different += 1
                    print(number, case, f"ours alone: {mine - theirs}", f"theirs alone: {theirs - mine}", sep="\n  ")
    print(f"{asked.cases} cases, {different} differ")


if __name__ == "__main__":
    main()
