"""The program of docs/tokens.md, killed again and again: each answer is in its database once."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from driver import TIME, Cluster, ClusterError, LocalCluster, NotFound, Query, QueryError, count, stream, window_start
from tests.support.paths import ROOT
from tests.support.waiting import HANG_S, until

PROGRAM = "".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs/tokens.md").read_text(), re.DOTALL))
BATCHES, ROWS, KEYS = 30, 500, 7


def query(name: str, output: str) -> Query:
    made = Query(name).source(stream(f"{name}.in", t="timestamp[ms]", key=int, event_time="t", disorder="1s"))
    made = made.aggregate("w", TIME("2s"), by="key", start=window_start(), visits=count()).output(output)
    return made.options(parallelism=2, recover="on-commit", checkpoint="100ms")


def rows(batch: int) -> list[dict[str, int]]:
    return [{"t": i * 10, "key": i % KEYS} for i in range(batch * ROWS, (batch + 1) * ROWS)]


class Program:
    """The one of the page, with its database."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        file, self.database = folder / "program.py", folder / "answers.db"
        file.write_text(PROGRAM)
        self.command = [sys.executable, str(file), cluster.rest.url, str(self.database)]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, env={**os.environ, "PYTHONPATH": str(ROOT)})

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(HANG_S)

    def asked(self, sql: str) -> list[tuple[object, ...]]:
        try:
            with closing(sqlite3.connect(self.database, timeout=HANG_S)) as kept:
                return kept.execute(sql).fetchall()
        except sqlite3.OperationalError:  # there is no table yet
            return []

    def await_more(self) -> None:
        before = len(self.asked("SELECT * FROM answers"))
        until(lambda: len(self.asked("SELECT * FROM answers")) > before)


def kill_a_manager(cluster: LocalCluster, im: str) -> None:
    os.kill(next(int(each["pid"]) for each in cluster.instance_managers() if each["id"] == im), signal.SIGKILL)


def test_each_answer_is_there_once_whatever_is_killed(cluster: LocalCluster, tmp_path: Path) -> None:
    running = cluster.deploy(query("per-key", "per_key"), start=False)
    program = Program(cluster, tmp_path)
    try:
        until(lambda: bool(program.asked("SELECT * FROM tokens")))
        running.start()
        with cluster.publisher("per-key.in") as out:
            for batch in range(BATCHES):
                out.send(rows(batch))
                if batch in (9, 19):
                    program.await_more()
                    program.kill()
                    if batch == 19:
                        kill_a_manager(cluster, running.status()["placed"][0]["im"])
                    program.start()
        assert program.process.wait(HANG_S) == 0
    finally:
        program.kill()
    running.wait()
    found = program.asked("SELECT key, start, visits FROM answers")
    assert len(found) == len({row[:2] for row in found}) == BATCHES * ROWS * 10 // 2000 * KEYS
    assert sum(int(str(visits)) for *_, visits in found) == BATCHES * ROWS
    assert running.status()["recovery"]["attempts"] >= 1


def test_one_process_at_a_time_has_it_and_tokens_that_cannot_be_kept_to_are_refused(cluster: LocalCluster) -> None:
    running = cluster.deploy(query("two", "two.out"), start=False)
    first = running.subscribe("two.out", resumable=True)
    running.start()
    with cluster.publisher("two.in") as out, Cluster(cluster.rest.url) as other:
        for batch in range(4):
            out.send(rows(batch))
        begun = first.token()
        assert first.next_batch(HANG_S) is not None
        token = first.token()
        assert token != begun
        second = other.subscribe("two.out", resume=token)
        assert second.token() == token
        with pytest.raises(ClusterError, match="another process has resumed this subscription"):
            while first.next_batch(HANG_S) is not None:
                pass
        with pytest.raises(QueryError, match="is not kept any more, for it was acknowledged"):
            other.subscribe("two.out", resume=begun)
        for wrong, why in ((token[:-2], "damaged"), ("cep9" + token[4:], "version 9")):
            with pytest.raises(QueryError, match=why):
                other.subscribe("two.out", resume=wrong)
        with pytest.raises(QueryError, match=r"expected a token of stream 'per_key', got one of stream 'two\.out'"):
            other.subscribe("per_key", resume=token)
        third = other.subscribe("two.out", resume=token)
        third.forget()
        with pytest.raises(NotFound, match="to resume: it was given up"):
            other.subscribe("two.out", resume=token)
    running.wait()


def test_a_query_that_does_not_recover_has_no_tokens(cluster: LocalCluster) -> None:
    plain = cluster.deploy(query("plain", "plain.out").options(recover="off"), start=False)
    with pytest.raises(QueryError, match="query 'plain' does not recover"):
        plain.subscribe("plain.out", resumable=True)
    plain.stop()
