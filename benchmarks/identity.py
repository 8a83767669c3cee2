"""Identity: every line of a text file as it is, to a text file or to a subscriber that looks at its size.

`python -m benchmarks.identity --csv FILE --records N --out FOLDER [--subscribe]`
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.metering import cluster_on, drained, metered, say
from driver import Query, col, files

UNIT_SEPARATOR = "\x1f"
"""Occurs in no line, so that a line is one field."""


def query(csv: Path) -> Query:
    lines = files("lines", {"line": str}, paths=[str(csv)], separator=UNIT_SEPARATOR)
    return Query("identity").source(lines).map("same", line=col("line")).output("answers")


class Written:
    """Lines as they were."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("wb")

    def __call__(self, batch: pa.RecordBatch) -> None:
        whole = pc.binary_join_element_wise(batch["line"], "", "\n")
        self.file.write(_text(whole))


class Measured:
    """Bytes of the lines that were delivered, their newlines counted as they are in the file."""

    def __init__(self) -> None:
        self.bytes = self.batches = 0

    def __call__(self, batch: pa.RecordBatch) -> None:
        self.batches += 1
        self.bytes += len(_text(batch["line"])) + batch.num_rows


def _text(lines: pa.Array) -> memoryview:
    """The bytes of all texts of an array, one behind the other."""
    offsets = memoryview(lines.buffers()[1]).cast("i")
    return memoryview(lines.buffers()[2])[offsets[lines.offset] : offsets[lines.offset + len(lines)]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--subscribe", action="store_true")
    asked = parser.parse_args()
    with cluster_on(1, asked.csv) as cluster:
        running = cluster.deploy(query(asked.csv), start=False)
        answers = running.subscribe("answers")
        written, delivered = Written(asked.out / "answers.csv"), Measured()
        with metered(cluster) as used:
            running.start()
            rows = drained(answers, delivered if asked.subscribe else written)
            written.file.close()
    sizes = {"bytes_per_s": delivered.bytes / used.wall_s, "batch_bytes_mean": delivered.bytes / max(1, delivered.batches)}
    say(answers=rows, **(sizes if asked.subscribe else {}), **used.rates(asked.records))


if __name__ == "__main__":
    main()
