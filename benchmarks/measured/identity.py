"""Identity: every line of a text file as it is, to a text file or to a subscriber that looks at its size.

`python -m benchmarks.measured.identity --csv FILE --records N --out FOLDER [--subscribe]`
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow as pa

from benchmarks.metering import drained, metered, say
from driver import LocalCluster, Query, col, files

UNIT_SEPARATOR = "\x1f"
"""Occurs in no line, so that a line is one field."""


def query(csv: Path, folder: Path | None) -> Query:
    lines = files("lines", {"line": str}, paths=[str(csv)], separator=UNIT_SEPARATOR)
    written = {} if folder is None else {"separator": UNIT_SEPARATOR}
    return Query("identity").source(lines).map("same", line=col("line")).output("answers", folder, **written)


class Delivered:
    """Bytes of the lines that were delivered, their newlines counted as they are in the file."""

    def __init__(self) -> None:
        self.bytes = self.batches = 0

    def __call__(self, batch: pa.RecordBatch) -> None:
        self.batches += 1
        self.bytes += len(_text(batch["line"])) + batch.num_rows

    def figures(self, seconds: float) -> dict[str, float]:
        return {"bytes_per_s": self.bytes / seconds, "batch_bytes_mean": self.bytes / max(1, self.batches)}


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
    with LocalCluster(instances=1, data=[asked.csv.parent, asked.out]) as cluster:
        running = cluster.deploy(query(asked.csv, None if asked.subscribe else asked.out), start=False)
        delivered = Delivered()
        answers = running.subscribe("answers") if asked.subscribe else None
        with metered(cluster) as used:
            running.start()
            if answers is None:
                running.wait()
            else:
                drained(answers, delivered)
    say(**(delivered.figures(used.wall_s) if asked.subscribe else {}), **used.rates(asked.records))


if __name__ == "__main__":
    main()
