"""Queries that recover and tell their answers as they are made: instance managers are killed, and no row is lost, none is there twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driver import TIME, LocalCluster, Query, QueryError, col, count, now, stream, window_start
from tests.cluster.test_recovery import await_commit, commits, kill, query, rows_of
from tests.support.waiting import until

ROWS, FILES, GROUPS = 1_000_000, 4, 500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[LocalCluster]:
    with LocalCluster(instances=3, data=[folder]) as started:
        yield started


@pytest.fixture(scope="module")
def records(folder: Path) -> str:
    """`t,key,value` lines in several files."""
    for part in range(FILES):
        lines = (f"{i},{i * 7919 % GROUPS},{i % 1000}\n" for i in range(part, ROWS, FILES))
        (folder / f"records-{part}.txt").write_text("".join(lines))
    return str(folder / "records-*.txt")


def expected() -> list[tuple[Any, ...]]:
    """Of `query`: of each window of 20 s and key the rows and the sum of their values."""
    counts: Counter[tuple[int, int]] = Counter()
    totals: Counter[tuple[int, int]] = Counter()
    for i in range(ROWS):
        at = i // 20_000, i * 7919 % GROUPS
        counts[at] += 1
        totals[at] += i % 1000
    return sorted((key, n, totals[window, key]) for (window, key), n in counts.items())


def test_rows_that_were_taken_before_any_checkpoint_do_not_come_again(cluster: LocalCluster, records: str) -> None:
    """No checkpoint is due before its end, so all is made once more, and the program has some of it."""
    running = cluster.deploy(query("early", records, recover="at-once", checkpoint="1h"), start=False)
    found = running.subscribe("early.out")
    running.start()
    first = found.next_batch(60)
    assert first is not None and commits(running) == 0
    taken = list(zip(*(column.to_pylist() for column in first.columns), strict=True))
    kill(cluster, "im-0")
    assert sorted(taken + rows_of(found)) == expected()
    assert running.status()["recovery"]["attempts"] >= 1


def test_answers_are_those_of_a_run_in_which_nothing_died(cluster: LocalCluster, records: str) -> None:
    running = cluster.deploy(query("killed", records, recover="at-once", checkpoint="100ms"), start=False)
    found = running.subscribe("killed.out")
    running.start()
    for number in range(2):
        await_commit(running, commits(running))
        kill(cluster, f"im-{number}")
    assert rows_of(found) == expected()
    until(lambda: running.status()["state"] == "ended")
    assert running.status()["recovery"]["attempts"] >= 1


def per_key(name: str) -> Query:
    read = stream(f"{name}.in", t="timestamp[ms]", key=int, event_time="t", disorder="1s")
    made = Query(name).source(read).aggregate("w", TIME("10s"), by="key", start=window_start(), n=count())
    return made.output(f"{name}.out").options(parallelism=2, recover="at-once", checkpoint="1h")


def test_what_was_published_comes_out_though_no_checkpoint_is_due_and_is_sent_once_more(cluster: LocalCluster) -> None:
    """A subscription that came while it ran hears as soon as a checkpoint covers that it is there, and is told at once from then on."""
    running = cluster.deploy(per_key("live"), start=False)
    first = running.subscribe("live.out")
    running.start()
    batches, rows = 90, 500
    with cluster.publisher("live.in") as out:
        found, late = list[dict[str, Any]](), None
        for batch in range(batches):
            out.send([{"t": i * 10, "key": i % 7} for i in range(batch * rows, (batch + 1) * rows)])
            if batch == 30:
                before = commits(running)
                found += first.next_batch(60).to_pylist()
                assert commits(running) == before, "it did not wait for one"
                kill(cluster, running.status()["placed"][0]["im"])
            if batch == 60:
                late = running.subscribe("live.out")
                with cluster.publisher("live.in", name="another"):
                    pass  # it asks for a checkpoint
    for each in first:
        found += each.to_pylist()
    answers = Counter((row["start"], row["key"], row["n"]) for row in found)
    assert sum(n * times for (_, _, n), times in answers.items()) == batches * rows and set(answers.values()) == {1}
    assert late is not None and Counter((row["start"], row["key"], row["n"]) for each in late for row in each.to_pylist()) <= answers
    assert running.status()["recovery"]["attempts"] >= 1


def test_tokens_of_such_a_query(cluster: LocalCluster) -> None:
    """What a token covers, a checkpoint covers: rows of a resumable subscription come when one is committed."""
    running = cluster.deploy(per_key("resumed").options(checkpoint="100ms"), start=False)
    subscription = running.subscribe("resumed.out", resumable=True)
    running.start()
    with cluster.publisher("resumed.in") as out:
        out.send([{"t": i * 10, "key": i % 7} for i in range(20_000)])
        await_commit(running, commits(running))
        batch = subscription.next_batch(60)
        assert batch is not None
        found, token = batch.to_pylist(), subscription.token()
        kill(cluster, running.status()["placed"][0]["im"])
        again = running.subscribe("resumed.out", resumable=True, resume=token)
    for each in again:
        found += each.to_pylist()
    answers = Counter((row["start"], row["key"], row["n"]) for row in found)
    assert sum(n for _, _, n in answers) == 20_000 and set(answers.values()) == {1}


def test_answers_that_could_not_be_made_again_are_refused_by_name(cluster: LocalCluster) -> None:
    read = stream("clocked.in", t="timestamp[ms]", event_time="t", disorder="1s")
    made = Query("clocked").source(read).map("stamp", t=col("t"), at=now()).output("clocked.out")
    with pytest.raises(QueryError, match=r"operator 'stamp' uses now\(\).*take 'on-commit'"):
        cluster.deploy(made.options(recover="at-once"))
