"""Text files through the real cluster: what is bad in them becomes a dead letter with file, position and reason, and the rest goes on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cep.model.query import Output
from cep.model.sinks import TextSink
from cep.model.streams import Stream
from driver import Conflict, LocalCluster, QueryError, QueryFailed, files
from tests.support.visits import BASE_MS, answers, expected, rows, windows
from tests.support.waiting import until

BLOCK = 1024  # the least there is
FIELDS = {"ip": str, "nothing": str, "ts": "timestamp[ms]"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


def lines(given: list[dict[str, Any]]) -> list[bytes]:
    """ip,nothing,ts,more: the query needs the first and the third."""
    return [f"{row['ip']},-,{row['ts']},more,still more\n".encode() for row in given]


def declared(name: str, *paths: Path | str, **options: Any) -> Stream:
    return files(
        f"{name}.visits", FIELDS, paths=[str(p) for p in paths], event_time="ts", disorder="2s", **{"block_bytes": BLOCK, **options}
    )


def run(cluster: LocalCluster, name: str, source: Stream) -> Any:
    """Answers, and the dead letters as (file, position, reason)."""
    running = cluster.deploy(windows(name, source), start=False)
    found = running.subscribe(f"{name}.per_ip")
    running.start()
    got = answers(found)
    until(lambda: running.status()["state"] == "ended")
    return running, got


@pytest.mark.parametrize("instances", [1, 2])
def test_many_blocks_of_many_files(cluster: LocalCluster, folder: Path, instances: int) -> None:
    name = f"many{instances}"
    given = rows(9000, groups=20)
    for i in range(3):
        (folder / f"{name}-{i}.txt").write_bytes(b"".join(lines(given[i::3])))
    source = declared(name, folder / f"{name}-*.txt", block_bytes=64 << 10)
    query = windows(name, source, parallelism=instances)
    running = cluster.deploy(query, start=False)
    found = running.subscribe(f"{name}.per_ip")
    running.start()
    assert answers(found) == expected(given)


@pytest.mark.parametrize("format_", ["jsonl", "parquet", "arrow"])
def test_files_of_other_formats(cluster: LocalCluster, folder: Path, format_: str) -> None:
    """Read, and written in JSON Lines or Parquet: nothing compiles once the query runs."""
    name, given = f"other_{format_}", [{"ip": row["ip"], "nothing": "-", "ts": row["ts"]} for row in rows(9000, groups=20)]
    path = folder / f"{name}.{format_}"
    if format_ == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in given))
    elif format_ == "parquet":
        pq.write_table(pa.Table.from_pylist(given), path, row_group_size=1000)
    else:
        with pa.ipc.new_file(path, pa.Table.from_pylist(given).schema) as writer:
            writer.write_table(pa.Table.from_pylist(given), max_chunksize=1000)
    source = files(f"{name}.visits", FIELDS, paths=str(path), format=format_, event_time="ts", disorder="2s")
    query, to = replace(windows(name, source), outputs=()), "parquet" if format_ == "jsonl" else "jsonl"
    cluster.deploy(query.output(f"{name}.per_ip", folder=folder / name, format=to), start=False).start().wait()
    parts = sorted((folder / name).iterdir())
    assert [part.name for part in parts] == [f"{name}.per_ip-{i:05}.{to}" for i in range(2)]
    if to == "jsonl":
        found = [tuple(json.loads(line).values()) for part in parts for line in part.read_text().splitlines()]
    else:
        columns = [
            column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in pq.read_table(folder / name).columns
        ]
        found = [(ip, n, start // 1000, end // 1000) for ip, n, start, end in zip(*(column.to_pylist() for column in columns), strict=True)]
    assert Counter(found) == expected(given)


@pytest.mark.parametrize("instances", [1, 2])
def test_answers_in_files(cluster: LocalCluster, folder: Path, instances: int) -> None:
    """Every instance writes its own; no subscriber is needed."""
    name, given = f"written{instances}", rows(9000, groups=20)
    (folder / f"{name}.txt").write_bytes(b"".join(lines(given)))
    query = windows(name, declared(name, folder / f"{name}.txt", block_bytes=64 << 10), parallelism=instances)
    query = replace(query, outputs=()).output(f"{name}.per_ip", folder=folder / name)
    cluster.deploy(query, start=False).start().wait()
    parts = sorted((folder / name).iterdir())
    assert [part.name for part in parts] == [f"{name}.per_ip-{i:05}.csv" for i in range(instances)]
    records = [line.split(",") for part in parts for line in part.read_text().splitlines()]
    assert Counter((ip, int(n), int(start), int(end)) for ip, n, start, end in records) == expected(given)


def test_answers_only_under_the_folders_of_the_cluster(cluster: LocalCluster, folder: Path) -> None:
    query = windows("outside").value()
    written = replace(query, outputs=(Output("outside.per_ip", "window", TextSink("/nowhere/else")),))
    with pytest.raises(QueryError, match="is not under a folder of this cluster") as caught:
        cluster.deploy(written)
    assert caught.value.pointer == "/outputs/0/files/folder"


GOOD = rows(40)  # more than a block of them
DAMAGE: dict[str, tuple[bytes, str, bytes]] = {
    # what: (a record, part of the reason, what the letter shows of it)
    "a short line": (b"10.0.0.9,x\n", "3 fields", b"10.0.0.9,x"),
    "an empty line": (b"\n", "3 fields", b""),
    "no time": (b"10.0.0.9,x,yesterday,y\n", "yesterday", b"10.0.0.9,x,yesterday,y"),
    "an empty time": (b"10.0.0.9,x,,y\n", "ts", b"10.0.0.9,x,,y"),
    "invalid UTF-8": (b"10.0.\xff.9,x,%d,y\n" % BASE_MS, "UTF-8", b"10.0.\\xff.9"),
    "longer than a block": (b"10.0.0.9," + b"x" * 2 * BLOCK + b",%d\n" % BASE_MS, "size of a block", b"10.0.0.9,xxx"),
}


def test_bad_records(cluster: LocalCluster, folder: Path) -> None:
    """One bad record of each kind among good ones, and one more at the end, without a newline."""
    name, path = "bad", folder / "bad.txt"
    good, content, wanted = lines(GOOD), b"", []
    for i, (record, reason, shown) in enumerate(DAMAGE.values()):
        content += b"".join(good[i * 5 : i * 5 + 5])
        wanted.append((len(content), reason, shown.decode()))
        content += record
    content += b"".join(good[len(DAMAGE) * 5 :])
    wanted.append((len(content), "3 fields", "10.0.0.9,the end"))
    path.write_bytes(content + b"10.0.0.9,the end")
    running, got = run(cluster, name, declared(name, path))
    assert got == expected(GOOD)
    letters = until(lambda: len(found := running.dead_letters()["letters"]) == len(wanted) and found)
    for letter, (position, reason, shown) in zip(sorted(letters, key=lambda x: int(x["position"].split()[-1])), wanted, strict=True):
        assert (letter["operator"], letter["source"], letter["position"]) == (f"{name}.visits", str(path), f"byte {position}")
        assert reason in letter["reason"], letter
        assert letter["record"].startswith(shown)
        assert len(letter["record"]) <= 4096
    assert running.dead_letters()["total"] == len(wanted)


WAYS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "header": (b"ip,nothing,ts\n" + b"".join(lines(GOOD)), {"header": True}),
    "crlf": (b"".join(lines(GOOD)).replace(b"\n", b"\r\n"), {}),
    "crlf-after-the-last-field": (b"".join(b",".join(x.split(b",")[:3]) + b"\r\n" for x in lines(GOOD)), {}),
    "no-final-newline": (b"".join(lines(GOOD))[:-1], {}),
    "separator": (b"".join(lines(GOOD)).replace(b",", b";"), {"separator": ";"}),
}


@pytest.mark.parametrize("name", WAYS)
def test_ways_to_write_a_file(cluster: LocalCluster, folder: Path, name: str) -> None:
    content, options = WAYS[name]
    (folder / f"{name}.txt").write_bytes(content)
    running, got = run(cluster, name, declared(name, folder / f"{name}.txt", **options))
    assert got == expected(GOOD)
    assert running.dead_letters()["total"] == 0


def test_a_header_that_was_not_declared(cluster: LocalCluster, folder: Path) -> None:
    name, content = "surprise", WAYS["header"][0]
    (folder / f"{name}.txt").write_bytes(content)
    running, got = run(cluster, name, declared(name, folder / f"{name}.txt"))
    assert got == expected(GOOD)
    (letter,) = until(lambda: running.dead_letters()["letters"])
    assert (letter["position"], letter["record"]) == ("byte 0", "ip,nothing,ts")


@pytest.mark.parametrize("content", [b"", b"ip,nothing,ts\n", b"ip,nothing,ts"])
def test_nothing_in_it(cluster: LocalCluster, folder: Path, content: bytes) -> None:
    name = f"empty{len(content)}"
    (folder / f"{name}.txt").write_bytes(content)
    _, got = run(cluster, name, declared(name, folder / f"{name}.txt", header=True))
    assert not got


def test_an_empty_one_among_others(cluster: LocalCluster, folder: Path) -> None:
    for i, content in enumerate((b"", b"".join(lines(GOOD)), b"")):
        (folder / f"some-{i}.txt").write_bytes(content)
    _, got = run(cluster, "some", declared("some", folder / "some-*.txt"))
    assert got == expected(GOOD)


def test_files_that_are_not_for_us(cluster: LocalCluster, folder: Path) -> None:
    (folder / "link.txt").symlink_to("/etc/hostname")
    (folder / "there.txt").write_bytes(b"".join(lines(GOOD)))
    cases = [
        ("/etc/hostname", "not under a folder"),
        (folder / ".." / ".." / "elsewhere.txt", "not under a folder"),
        (folder / "link.txt", "not under a folder"),
        (folder / "nowhere.txt", "does not exist"),
        (folder / "nothing-*.txt", "no file matches"),
        (folder, "not a file"),
        ("there.txt", "absolute"),
    ]
    for path, reason in cases:
        with pytest.raises(QueryError, match=reason) as refused:
            cluster.deploy(windows("refused", declared("refused", folder / "there.txt", path)))
        assert refused.value.pointer == "/streams/0/files/paths/1"
    assert "refused" not in [query["name"] for query in cluster.queries()]


def test_a_file_that_shrinks(cluster: LocalCluster, folder: Path) -> None:
    """Between plan and reading: its query fails and says why; others go on."""
    path = folder / "shrinking.txt"
    path.write_bytes(b"".join(lines(GOOD)))
    running = cluster.deploy(windows("shrinking", declared("shrinking", path)), start=False)
    found = running.subscribe("shrinking.per_ip")
    path.write_bytes(b"")
    with pytest.raises(QueryFailed, match="shorter than when the query was planned"):
        running.start()
        answers(found)
    assert until(lambda: running.status()["state"] == "failed" and running.status()["cause"])["subquery"] == "SQ1"


def test_nobody_publishes_to_files(cluster: LocalCluster, folder: Path) -> None:
    (folder / "mine.txt").write_bytes(b"".join(lines(GOOD)))
    cluster.deploy(windows("mine", declared("mine", folder / "mine.txt")))
    with pytest.raises(Conflict, match="read from files"):
        cluster.publisher("mine.visits")
