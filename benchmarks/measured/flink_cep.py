"""The patterns of `benchmarks.measured.pattern_cluster` in FlinkCEP, in a process of its own, whose last job of three counts.
Maven brings it; it needs a JDK.

`python -m benchmarks.measured.flink_cep together|apart --records N --work FOLDER`
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from benchmarks.java import JavaProgram
from benchmarks.nexmark.peers import FLINK_VERSION

_SOURCE = Path(__file__).parents[1] / "references" / "FlinkCep.java"
_PROGRAM = JavaProgram(_SOURCE, tuple(f"org.apache.flink:{name}:{FLINK_VERSION}" for name in ("flink-cep", "flink-clients")))
_OPTIONS = ("-Xms2g", "-Xmx2g", "-XX:+UseParallelGC", "-XX:ActiveProcessorCount=1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", choices=("together", "apart"))
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True, help="where it is built")
    asked = parser.parse_args()
    built = asked.work / f"flink-cep-{FLINK_VERSION}"
    built.mkdir(parents=True, exist_ok=True)
    _PROGRAM.build(built)
    words = _PROGRAM.words(built, *_OPTIONS)
    subprocess.run([*words, asked.question, str(asked.records)], check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
