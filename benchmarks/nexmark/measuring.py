"""One side of the benchmark: a cluster, a publishing process and a subscriber, which stand and run a query for every line.

`python -m benchmarks.nexmark.measuring EVENTS INSTANCES OPEN_MS_MAX OUT --standing`: EVENTS is the folder of `benchmarks.nexmark.made`,
OUT one for answers. A line is the name of a query, with `check` before it where the answers are to be written to `OUT/<output>.arrow`,
`sql` where the query is its text's, `file` where its streams are read from files of text (`benchmarks.nexmark.made`), and `at-once` or
`on-commit` where it is to recover. What it says is a line of JSON: seconds from the first row sent, or the query's start, to the last
answer read, how many answers, CPU seconds by process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from benchmarks.metering import process_cpu_s, say
from benchmarks.nexmark.asked import ANSWERS, ROWS_OF, Given, Nexmark
from benchmarks.nexmark.made import text_file
from benchmarks.nexmark.queries import chosen
from benchmarks.nexmark.texts import NO_TEXT, query_of
from cep.model import query as queries
from cep.model.streams import TextFiles
from numa_cep import LocalCluster, Query, Running, Subscription

CHECK, AS_TEXT, FROM_FILES, RECOVERS = "check", "sql", "file", ("at-once", "on-commit")
"""Words before a query's name."""


class PublishingProcess:
    """The publishing process, told what to do."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def open(self, streams: Sequence[str]) -> None:
        """Returns when the publishers are open."""
        self._say(" ".join(streams))
        self._hear()

    def go(self) -> None:
        self._say("go")

    def took(self) -> tuple[float, float]:
        """Seconds it has sent, and closed."""
        sent, closed = map(float, self._hear().split())
        return sent, closed

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        print(line, file=self.process.stdin, flush=True)

    def _hear(self) -> str:
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            raise RuntimeError(f"the publishing process ended with status {self.process.wait()}")
        return line


@contextmanager
def publishing(url: str, folder: Path) -> Iterator[PublishingProcess]:
    # -P: of the version that is measured, not of the folder in which this was started
    words = [sys.executable, "-P", "-m", "benchmarks.nexmark.publishing", url, str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield PublishingProcess(process)
        assert process.stdin is not None
        process.stdin.close()


class Measuring:
    """Runs queries on a cluster that stands. `events`: the folder with files of text."""

    def __init__(self, cluster: LocalCluster, publisher: PublishingProcess, given: Given, events: Path) -> None:
        self.cluster, self.publisher, self.given, self.events = cluster, publisher, given, events

    def run(self, query: Nexmark, how: Sequence[str] = ()) -> dict[str, Any]:
        """One run, deployed and gone; with `AS_TEXT` of the query's SQL where there is one."""
        shutil.rmtree(self.given.files, ignore_errors=True)
        self.given.files.mkdir(parents=True)
        is_text = AS_TEXT in how and query.name not in NO_TEXT
        made = query_of(query.name, self.given) if is_text else query.build(self.given)
        made = made.options(recover=next((each for each in how if each in RECOVERS), "off"))
        is_read = FROM_FILES in how
        running = self.cluster.deploy(self._read_from_files(made) if is_read else made, start=not is_read)
        names = [] if query.files else [ANSWERS]
        if query.name == "q12" and self.given.checked:
            names.insert(0, "stamped")  # all of it comes before the answers
        readers = {name: running.subscribe(name, event_time=name == "stamped") for name in names}
        if not is_read:
            self.publisher.open(query.reads)
        before, begun = self._cpu(), time.perf_counter()
        if is_read:
            running.start()
        else:
            self.publisher.go()
        rows = self._answers(query, running, readers)
        seconds = time.perf_counter() - begun
        used = {name: round(now - before.get(name, 0.0), 4) for name, now in self._cpu().items()}
        sent, closed = (0.0, 0.0) if is_read else self.publisher.took()
        running.delete()
        return {"seconds": seconds, "answers": rows, "cpu": used, "sent": sent, "closed": closed}

    def _read_from_files(self, made: Query) -> queries.Query:
        query = made.build()
        files = {each.name: TextFiles((str(text_file(self.events, ROWS_OF.get(each.name, each.name))),), "\t") for each in query.streams}
        return replace(query, streams=tuple(replace(each, files=files[each.name]) for each in query.streams))

    def _answers(self, query: Nexmark, running: Running, readers: dict[str, Subscription]) -> int:
        """Reads them all; returns how many."""
        if query.files:
            running.wait()
            if self.given.checked:
                _write(self.given.folder / f"{ANSWERS}.arrow", _lines(self.given.files))
            return int(running.status()["rows"][ANSWERS])
        for name, reader in readers.items():
            if self.given.checked:
                _write(self.given.folder / f"{name}.arrow", reader)
            else:
                rows = sum(batch.num_rows for batch in reader)
        return readers[ANSWERS].rows if self.given.checked else rows

    def _cpu(self) -> dict[str, float]:
        """CPU seconds so far, by process."""
        pids = {**dict(self.cluster.processes()), "publisher": self.publisher.process.pid, "subscriber": os.getpid()}
        return {name: process_cpu_s(pid) for name, pid in pids.items()}


def _lines(folder: Path) -> Iterator[pa.RecordBatch]:
    """Lines of q10's files, typed."""
    names = ["auction", "bidder", "price", "dateTime", "extra", "day", "minute"]
    types = dict(zip(names, [pa.int64()] * 4 + [pa.string()] * 3, strict=True))
    for path in sorted(each for each in folder.glob("*.csv") if each.stat().st_size):
        options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
        table = pyarrow.csv.read_csv(path, pyarrow.csv.ReadOptions(column_names=names), convert_options=options)
        yield from table.set_column(3, "dateTime", table["dateTime"].cast(pa.timestamp("ms"))).to_batches()


def _write(path: Path, batches: Any) -> None:
    """Writes batches of one schema, of which there is one at least, to an Arrow stream; no file where there is none."""
    path.unlink(missing_ok=True)
    out = None
    for batch in batches:
        out = out or pa.ipc.new_stream(path, batch.schema)
        out.write_batch(batch)
    if out is not None:
        out.close()


def main() -> None:
    folder, instances, open_ms_max, out = sys.argv[1:5]
    with LocalCluster(instances=int(instances), data=[folder, out]) as cluster, publishing(cluster.rest.url, Path(folder)) as publisher:
        for line in sys.stdin:
            *how, name = line.split()
            given = Given(Path(out), int(open_ms_max), CHECK in how)
            shutil.copy(Given(Path(folder), 0).side_input, given.side_input)
            say(**Measuring(cluster, publisher, given, Path(folder)).run(chosen([name])[0], how))


if __name__ == "__main__":
    main()
