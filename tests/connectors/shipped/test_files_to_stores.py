"""Files go out to a store of objects, a real server of S3, and one of Azure and of Google where it is there: the suite, and what is a
store's alone.

Tests `folders_out.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

import fsspec
import pyarrow.dataset
import pytest
from fsspec import AbstractFileSystem

from connectors.conformance import SinkBench, SinkSuite
from connectors.contract import ConnectorError, Fenced
from connectors.shipped.files_out import FilesWriter
from connectors.shipped.folders_out import StoreOut
from tests.connectors.shipped.test_files import days, dying
from tests.support.cloud_servers import AZURITE, FAKE_GCS, CloudServer, azurite, fake_gcs
from tests.support.s3_server import WEED, S3Server

FOLDERS = count()
SERVERS = {
    "s3": ("SeaweedFS", WEED, "s3fs", S3Server),
    "azure": ("Azurite", AZURITE, "adlfs", azurite),
    "google": ("fake-gcs-server", FAKE_GCS, "gcsfs", fake_gcs),
}


@pytest.fixture(scope="module", params=["s3", *(pytest.param(each, marks=pytest.mark.long) for each in ("azure", "google"))])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server | CloudServer]:
    called, found, library, start = SERVERS[request.param]
    if found is None:
        pytest.skip(f"needs {called}")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # which asks Google by gRPC, by TLS alone, for kinds of buckets
        pytest.importorskip(library)
    made = start(tmp_path_factory.mktemp(request.param))
    yield made
    made.stop()


class StoreSinkBench(SinkBench):
    """What has a name is seen. Each bench has a folder of its own."""

    def __init__(self, url: str, store: AbstractFileSystem, options: dict[str, str]) -> None:
        self.store, self.folder = store, f"bucket/out-{next(FOLDERS)}"
        self.end = {"connector": "files", "path": f"{url}{self.folder}", "store": options}

    def seen(self) -> list[int]:
        files = [name for name in self.store.ls(self.folder, detail=False) if name.endswith(".jsonl")]
        return [json.loads(line)["number"] for name in sorted(files) for line in self.store.cat_file(name).splitlines()]


@pytest.fixture
def objects(server: S3Server | CloudServer) -> StoreSinkBench:
    return StoreSinkBench(server.url, server.store, server.options)


@pytest.mark.long  # each writer loads what botocore knows of S3 anew
class TestObjectsSink(SinkSuite):
    @pytest.fixture
    def bench(self, objects: StoreSinkBench) -> SinkBench:
        return objects


class TestStoreSink(SinkSuite):
    """The same with a store in this process, which is refused outside of tests, for it is gone with the process."""

    @pytest.fixture
    def bench(self, monkeypatch: pytest.MonkeyPatch) -> SinkBench:
        monkeypatch.setattr("connectors.shipped.files.STORES_OUT", ("memory",))
        return StoreSinkBench("memory://", fsspec.filesystem("memory"), {})


def test_folders_named_by_columns_and_a_writer_killed_behind_its_commit(objects: StoreSinkBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then an old one, that was frozen, goes on."""
    bench = objects
    bench.end |= {"partition": ["day", "shop"], "format": "parquet"}
    first = bench.sink().open("[*]?", 1)
    assert isinstance(first, FilesWriter)
    first.write(days(0, 40), "q.0")
    with monkeypatch.context() as killed, pytest.raises(RuntimeError):
        killed.setattr(first.place, "publish", dying)
        first.commit("40")
    second = bench.sink().open("[*]?", 2)
    assert second.token() == "40"
    second.write(days(40, 45), "q.1")
    second.commit("45")
    first.place.publish(first.manifest["files"])
    first.write(days(40, 45), "q.1")
    with pytest.raises(Fenced):
        first.commit("45")
    for writer in (first, second):
        writer.close()
    bench.sink().open("[*]?", 3).close()
    read = pyarrow.dataset.dataset(bench.folder, format="parquet", partitioning="hive", filesystem=bench.store).to_table()
    rows = sorted(read.to_pylist(), key=lambda row: row["number"])
    assert rows == [{"number": row["number"], "day": row["day"], "shop": row["shop"]} for row in days(0, 45).to_pylist()]
    manifests = [each for each in bench.store.find(bench.folder) if each.endswith(".manifest")]
    assert len(manifests) == 1 and "/.[*]" in manifests[0]  # the last


def test_a_store_that_writes_over_what_is_there_is_refused(objects: StoreSinkBench, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(place: StoreOut, name: str, content: bytes) -> None:
        place.store.pipe_file(f"{place.own}/{name}", content)

    monkeypatch.setattr(StoreOut, "put_new", careless)
    with pytest.raises(ConnectorError, match="writes over what is there though it is told not to"):
        objects.sink().open("bench", 1)


def test_a_store_that_cannot_be_written_to_is_said(objects: StoreSinkBench, server: S3Server | CloudServer) -> None:
    bench, options = objects, objects.end["store"]
    if server.url == "s3://":  # the others pass over what they do not know
        bench.end["store"] = options | {"no_such": "x"}
        with pytest.raises(ConnectorError, match="no_such"):
            bench.sink().open("bench", 1)
    bench.end |= {"path": f"{server.url}no-such-bucket/out", "store": options}
    with pytest.raises(ConnectorError, match="://no-such-bucket/out: "):
        bench.sink().open("bench", 1)
