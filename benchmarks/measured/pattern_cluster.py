"""A pattern on a cluster: rows from a file of Arrow batches, matches counted and their values summed up by an Aggregate behind it.

`rare`: three of 300 kinds of rows may be a variable, so that the others are left out where they are read; `rare-unknown`: the same where
it is not known, since the conditions ask for the time of day too.

`python -m benchmarks.measured.pattern_cluster together|apart|rare|rare-unknown --records N [--instances 1] [--standing]`
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from benchmarks.measured.pattern import KINDS, SCHEMA, WITHIN_US, batches, part_of
from benchmarks.metering import metered, say, turns
from cep.kernels.columns import to_arrow
from cep.model.expr import now
from cep.model.patterns.parts import PatternPart
from driver import TIME, LocalCluster, Query, col, count, event, files, row, sum_

QUESTIONS = ("together", "apart", "rare", "rare-unknown")
RARE_KINDS = 300


def write_rows(path: Path, records: int, kinds: int) -> None:
    names = SCHEMA.names
    with pa.ipc.new_file(path, SCHEMA.arrow) as out:
        for batch in batches(records, kinds=kinds):
            out.write_batch(pa.RecordBatch.from_arrays([to_arrow(batch.columns[name]) for name in names], schema=SCHEMA.arrow))


def query(question: str, rows: Path, answers: Path | None) -> Query:
    types = {"t": "timestamp[us]", "k": int, "e": int, "v": int}
    part, after = _rare(question == "rare-unknown") if question.startswith("rare") else part_of(question)
    last = row("b" if question == "apart" else "c")["v"]
    return (
        Query("pattern")
        .source(files("rows", types, paths=[str(rows)], format="arrow", event_time="t", disorder="0s"))
        .pattern("found", part, by="k", within=f"{WITHIN_US}us", after=after, measures={"ends": row("a")["v"] + last})
        .aggregate("all", TIME("365d"), matches=count(), sum=sum_("ends"))
        .output("answers", answers)
    )


def _rare(unknown: bool) -> tuple[PatternPart, str]:
    events = [event(name, (col("e") == kind) & (col("t") < now()) if unknown else col("e") == kind) for kind, name in enumerate("abc")]
    return events[0].then(events[1]).then(events[2]), "past_last"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", choices=QUESTIONS)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--instances", type=int, default=1)
    parser.add_argument("--standing", action="store_true", help="run for every line that comes, not once")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder, LocalCluster(instances=asked.instances, data=[Path(folder)]) as cluster:
        rows = Path(folder) / "rows.arrow"
        write_rows(rows, asked.records, RARE_KINDS if asked.question.startswith("rare") else KINDS)
        for number, _ in enumerate(turns(asked.standing)):
            answers = Path(folder) / str(number)
            answers.mkdir()
            running = cluster.deploy(query(asked.question, rows, answers), start=False)
            with metered(cluster) as used:
                running.start().wait()
            running.delete()
            (written,) = answers.glob("*.csv")
            matches, total = written.read_text().split(",")
            say(answers=int(matches), sum=int(total), **used.rates(asked.records))


if __name__ == "__main__":
    main()
