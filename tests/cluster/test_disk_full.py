"""A full disk: new queries are refused with the reason, those that run go on, and when there is room again so does all the rest."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from cep.errors import CepError, DiskFull
from cep.model.limits import ROOM_BYTES_MIN
from cep.model.streams import to_json
from cep.world.store import DiskStore, MemoryStore
from driver import LocalCluster, Query, col, stream
from orchestrator.rest.disk_room import check_room, why_no_room
from orchestrator.rest.problems import problem_of
from tests.support.waiting import until

DISK_BYTES = 3 * ROOM_BYTES_MIN


def test_there_is_room_where_there_is(tmp_path: Path) -> None:
    check_room(DiskStore(), str(tmp_path))
    assert "cannot be looked at" in why_no_room(DiskStore(), str(tmp_path / "nowhere"))


def test_a_disk_with_less_is_a_507_that_says_so() -> None:
    check_room(MemoryStore(ROOM_BYTES_MIN), "/")
    with pytest.raises(DiskFull, match=r"is full: [0-9,]+ bytes are free, and ZooKeeper needs .*; no new query is taken") as caught:
        check_room(MemoryStore(ROOM_BYTES_MIN - 1), "/")
    assert problem_of(caught.value).status == 507


@pytest.fixture
def disk() -> Iterator[Path]:
    """A small one of its own, with a path that has room for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="disk-", dir="/tmp"))
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode:
        folder.rmdir()
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)
    folder.rmdir()


def fill(disk: Path) -> Path:
    """Nothing more fits."""
    file = disk / "filling"
    with file.open("wb", buffering=0) as filling:
        try:
            while filling.write(bytes(1 << 16)):
                pass
        except OSError:
            return file
    raise AssertionError("it is never full")


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_full_disk_refuses_what_is_new_and_nothing_else(disk: Path) -> None:
    source = stream("s", k=str, v=int)
    with LocalCluster(instances=1, numa=False, folder=str(disk), session_timeout_s=20) as cluster:
        running = cluster.deploy(Query("runs").source(source).filter("f", col("v") >= 0).output("out"))
        answers = running.subscribe("out")
        with cluster.publisher("s", keep_open=True) as out:
            out.send([{"k": "before", "v": 1}])
            assert answers.next_batch(30) is not None
            filling = fill(disk)
            with pytest.raises(DiskFull, match=r"disk of the cluster's home .* is full: [0-9,]+ bytes are free"):
                cluster.deploy(Query("new").source(source).filter("g", col("v") > 7).output("more"))
            with pytest.raises(DiskFull):
                cluster.deploy_all([Query("new").source(source).filter("g", col("v") > 7).output("more")])
            assert "is full" in cluster.info()["no_room"]
            out.send([{"k": "meanwhile", "v": 2}])
            batch = answers.next_batch(30)
            assert batch is not None and batch.column("k").to_pylist() == ["meanwhile"]
            _spoil(cluster)
            out.send([{"k": "later", "v": 3}])
            batch = answers.next_batch(30)
            assert batch is not None and batch.column("k").to_pylist() == ["later"]
            filling.unlink()
            assert until(lambda: _deployed(cluster, source), seconds=120)
            assert cluster.info()["no_room"] == ""
            out.send([{"k": "at last", "v": 9}])
            batch = answers.next_batch(30)
            assert batch is not None and batch.column("k").to_pylist() == ["at last"]
            running.stop()


def _spoil(cluster: LocalCluster) -> None:
    """ZooKeeper has to write more than it has set aside for its log, and ends of it."""
    for number in range(3):
        wide = stream(f"wide{number}", {f"{'x' * 100}{i}": int for i in range(4000)})
        with suppress(CepError, httpx.HTTPError):
            cluster.rest.client.put(f"/streams/wide{number}", json=to_json(wide), timeout=5)


def _deployed(cluster: LocalCluster, source: object) -> bool:
    try:
        cluster.deploy(Query("new").source(source).filter("g", col("v") > 7).output("more"))  # type: ignore[arg-type]
    except CepError:  # ZooKeeper is on its way
        return False
    return True
