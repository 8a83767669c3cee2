"""A pattern on a cluster: rows from a file of Arrow batches, matches counted and their values summed up by an Aggregate behind it.

`rare`: three of 300 kinds of rows may be a variable, so that the others are left out where they are read; `rare-unknown`: the same where
it is not known, since the conditions ask for the time of day too.

`--partitioned`: as many files as instance managers, each with keys of its own, read by as many replicas of the query.

`python -m benchmarks.measured.pattern_cluster together|apart|rare|rare-unknown --records N [--instances 1] [--partitioned] [--standing]`
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from benchmarks.measured.pattern import KINDS, SCHEMA, WITHIN_US, batches, part_of
from benchmarks.measured.trailing import BATCH_ROWS
from benchmarks.metering import metered, say, turns
from cep.kernels.columns import to_arrow
from cep.model.expr import now
from cep.model.patterns.parts import PatternPart
from driver import TIME, LocalCluster, Query, col, count, event, files, row, sum_

QUESTIONS = ("together", "apart", "rare", "rare-unknown")
RARE_KINDS = 300


def write_rows(folder: Path, records: int, kinds: int, parts: int) -> None:
    names, made = SCHEMA.names, batches(records, kinds=kinds)
    rows = pa.Table.from_batches(
        [pa.RecordBatch.from_arrays([to_arrow(batch.columns[name]) for name in names], schema=SCHEMA.arrow) for batch in made]
    )
    keys = rows["k"].to_numpy()
    for part in range(parts):
        with pa.ipc.new_file(folder / f"rows-{part}.arrow", SCHEMA.arrow) as out:
            out.write_table(rows.filter(keys % parts == part).combine_chunks(), max_chunksize=BATCH_ROWS)


def query(question: str, rows: Path, answers: Path | None, replicas: int) -> Query:
    """`replicas`: of a query over files of which each has keys of its own."""
    types = {"t": "timestamp[us]", "k": int, "e": int, "v": int}
    part, after = _rare(question == "rare-unknown") if question.startswith("rare") else part_of(question)
    last = row("b" if question == "apart" else "c")["v"]
    source = files(
        "rows",
        types,
        paths=str(rows / "*.arrow"),
        format="arrow",
        event_time="t",
        disorder="0s",
        partitioned_by="k" if replicas > 1 else (),
    )
    return (
        Query("pattern")
        .source(source)
        .pattern("found", part, by="k", within=f"{WITHIN_US}us", after=after, measures={"ends": row("a")["v"] + last})
        .aggregate("all", TIME("365d"), by="k", matches=count(), sum=sum_("ends"))
        .output("answers", answers)
        .options(replicas=replicas)
    )


def _rare(unknown: bool) -> tuple[PatternPart, str]:
    events = [event(name, (col("e") == kind) & (col("t") < now()) if unknown else col("e") == kind) for kind, name in enumerate("abc")]
    return events[0].then(events[1]).then(events[2]), "past_last"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", choices=QUESTIONS)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--instances", type=int, default=1)
    parser.add_argument("--partitioned", action="store_true", help="each instance manager reads files of its own, with keys of their own")
    parser.add_argument("--standing", action="store_true", help="run for every line that comes, not once")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder, LocalCluster(instances=asked.instances, data=[Path(folder)]) as cluster:
        rows, copies = Path(folder) / "rows", asked.instances if asked.partitioned else 1
        rows.mkdir()
        write_rows(rows, asked.records, RARE_KINDS if asked.question.startswith("rare") else KINDS, copies)
        for number, _ in enumerate(turns(asked.standing)):
            answers = Path(folder) / str(number)
            answers.mkdir()
            running = cluster.deploy(query(asked.question, rows, answers, copies), start=False)
            with metered(cluster) as used:
                running.start().wait()
            running.delete()
            said = [map(int, line.split(",")) for file in answers.glob("*.csv") for line in file.read_text().splitlines()]
            _, matches, total = map(sum, zip(*said, strict=True))
            say(answers=matches, sum=total, **used.rates(asked.records))


if __name__ == "__main__":
    main()
