"""Files in a folder and out of one: the suites, and what is theirs alone.

Tests `files.py`, `files_out.py`, `folders.py`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import ThreadedFTPServer

from connectors.conformance import SinkBench, SinkSuite, SourceBench, SourceSuite
from connectors.contract import ConnectorError, Fenced, FileFormat, Polled
from connectors.documents import WrongDocument, described
from connectors.formats.known import FORMATS
from connectors.shipped.files import FilesIn, FilesReader
from connectors.shipped.files_out import FilesWriter


class FilesSourceBench(SourceBench):
    """Each feed is a file that is renamed into the folder."""

    silence_s = 0.0

    def __init__(self, folder: Path) -> None:
        self.folder, self.end = folder, {"connector": "files", "path": str(folder)}
        self.files = 0

    def feed(self, values: Sequence[bytes]) -> None:
        part = self.folder / ".part"
        part.write_bytes(b"".join(value + b"\n" for value in values))
        part.rename(self.folder / f"{self.files:04d}.jsonl")
        self.files += 1


class FilesSinkBench(SinkBench):
    """What has a name is seen."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.end = folder, {"connector": "files", "path": str(folder)}

    def seen(self) -> list[int]:
        return [json.loads(line)["number"] for file in sorted(self.folder.glob("*.jsonl")) for line in file.read_bytes().splitlines()]


class TestFilesSource(SourceSuite):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> SourceBench:
        return FilesSourceBench(tmp_path)


class TestFilesSink(SinkSuite):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> SinkBench:
        return FilesSinkBench(tmp_path)


TABLES = ("arrow", "parquet", "avro")


class TableSourceBench(FilesSourceBench):
    """The records stand in files of another format, each a row; one that is no object is a NULL."""

    def __init__(self, folder: Path, format_: str) -> None:
        super().__init__(folder)
        self.end["format"] = format_
        self.format = FORMATS[format_]()

    def feed(self, values: Sequence[bytes]) -> None:
        rows = [json.loads(value) if value.startswith(b"{") else {"number": None, "text": value.decode()} for value in values]
        (self.folder / f"{self.files:04d}").write_bytes(self.format.file_of(pa.RecordBatch.from_pylist(rows, SinkBench.SCHEMA)))
        self.files += 1

    def value_of(self, polled: Polled, index: int) -> bytes:
        assert polled.rows is not None
        (row,) = polled.rows.slice(index, 1).to_pylist()
        return row["text"].encode() if row["number"] is None else json.dumps(row, ensure_ascii=False).encode()


class TableSinkBench(FilesSinkBench):
    def __init__(self, folder: Path, format_: str) -> None:
        super().__init__(folder)
        self.end["format"] = format_
        self.format = FORMATS[format_]()

    def seen(self) -> list[int]:
        found = []
        for path in sorted(self.folder.glob(f"*{self.format.suffix}")):
            assert isinstance(self.format, FileFormat)
            with path.open("rb") as file:
                found += [number for batch in self.format.batches(file) for number in batch.column("number").to_pylist()]
        return found


class TestTableSource(SourceSuite):
    @pytest.fixture(params=TABLES)
    def bench(self, request: pytest.FixtureRequest, tmp_path: Path) -> SourceBench:
        return TableSourceBench(tmp_path, request.param)


class TestTableSink(SinkSuite):
    @pytest.fixture(params=TABLES)
    def bench(self, request: pytest.FixtureRequest, tmp_path: Path) -> SinkBench:
        return TableSinkBench(tmp_path, request.param)


def read(bench: FilesSourceBench, place: object = None, **options: object) -> list[tuple[str, bytes]]:
    """All that is there, and what each is called."""
    found = bench.described(follow=False, **options)
    assert isinstance(found.options, FilesIn) and found.format is not None
    reader = FilesReader(found.options, found.format, place)
    values: list[tuple[str, bytes]] = []
    while not (polled := reader.poll(3, 0.0)).ended:
        assert polled.called is not None
        values += [(polled.called(at), value) for at, value in enumerate(polled.values)]
    reader.close()
    return values


def test_names_give_the_order_and_hidden_ones_are_not_there_yet(tmp_path: Path) -> None:
    bench = FilesSourceBench(tmp_path)
    for name in ("b.jsonl", "a.jsonl", ".c.jsonl", "_d.jsonl", "e.txt"):
        (tmp_path / name).write_bytes(name.encode())
    assert [value for _, value in read(bench, pattern="*.jsonl")] == [b"a.jsonl", b"b.jsonl"]


def test_lines_of_all_kinds(tmp_path: Path) -> None:
    """Empty ones are none; a carriage return is none of the value's; the last needs no end. A value is called by its file and number."""
    (tmp_path / "a").write_bytes(b"one\r\n\n\ntwo\n\nthree")
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "c").write_bytes(b"\nfour\n")
    found = read(FilesSourceBench(tmp_path))
    assert found == [(f"{tmp_path}/a@1", b"one"), (f"{tmp_path}/a@2", b"two"), (f"{tmp_path}/a@3", b"three"), (f"{tmp_path}/c@1", b"four")]


def test_records_of_csv_may_have_several_lines_and_a_head(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b'number,text\n1,"a\nb"\n2,c\n3,"un\n')
    bench = FilesSourceBench(tmp_path)
    csv = {"name": "csv", "header": True}
    assert [value for _, value in read(bench, format=csv)] == [b'1,"a\nb"', b"2,c", b'3,"un']
    found = bench.described(format=csv, follow=False)
    assert isinstance(found.options, FilesIn) and found.format is not None
    first = FilesReader(found.options, found.format, None).poll(1, 0.0)
    assert first.format is not None and first.format.columns == ("number", "text")  # type: ignore[attr-defined]
    assert [value for _, value in read(bench, first.place, format=csv)] == [b"2,c", b'3,"un']


def test_values_that_are_cut_by_a_block_are_whole(tmp_path: Path) -> None:
    values = [bytes([65 + i]) * 700_000 for i in range(5)]
    (tmp_path / "a").write_bytes(b"\n".join(values))
    assert [value for _, value in read(FilesSourceBench(tmp_path))] == values


def test_a_file_that_is_gone_in_the_middle_is_said(tmp_path: Path) -> None:
    bench = FilesSourceBench(tmp_path)
    with pytest.raises(ConnectorError, match=r"gone.jsonl, which is not read to its end: No such file"):
        read(bench, ["gone.jsonl", 7, 2])


def test_a_manifest_that_makes_no_sense_is_said(tmp_path: Path) -> None:
    """Nothing is begun anew for it."""
    (tmp_path / ".bench").mkdir()
    (tmp_path / ".bench" / "0000000003.manifest").write_text("{")
    with pytest.raises(ConnectorError, match=r"makes no sense, so it is not known what was written"):
        FilesSinkBench(tmp_path).sink().open("bench", 1)
    (tmp_path / ".other.manifest").write_text("{}")
    with pytest.raises(ConnectorError, match=r"of a version before, .*: give 'other' another folder"):
        FilesSinkBench(tmp_path).sink().open("other", 1)


# Stores, of which one is an FTP server


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    """A folder of a server of FTP, on loopback, whose files lie in `tmp_path`."""
    logins = DummyAuthorizer()
    logins.add_user("cep", "hunter22", str(tmp_path), perm="elr")
    handler = type("Handler", (FTPHandler,), {"authorizer": logins})
    server = ThreadedFTPServer(("127.0.0.1", 0), handler)
    (tmp_path / "in").mkdir()
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            server.serve_forever(0.05, blocking=False, handle_exit=False)
        server.close_all()  # here, for nothing polls a socket then that is closed

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    yield f"ftp://127.0.0.1:{server.address[1]}/in"
    over.set()
    serving.join()


class StoreSourceBench(FilesSourceBench):
    def __init__(self, folder: Path, url: str, **more: object) -> None:
        super().__init__(folder)
        self.end = {"connector": "files", "path": url, "store": {"username": "cep", "password": "hunter22"}, **more}


class TestStoreSource(SourceSuite):
    @pytest.fixture
    def bench(self, store: str, tmp_path: Path) -> SourceBench:
        return StoreSourceBench(tmp_path / "in", store)


def test_a_file_of_a_store_that_cannot_be_read_is_one_and_a_store_that_is_gone_is_not(store: str, tmp_path: Path) -> None:
    bench = StoreSourceBench(tmp_path / "in", store, format="parquet", follow=False)
    (tmp_path / "in" / "a").write_bytes(b"nonsense")
    (tmp_path / "in" / "b").write_bytes(FORMATS["parquet"]().file_of(days(0, 2000)))
    reader = bench.source().open(store, None)
    polled = reader.poll(10, 0.0)
    assert polled.wrong is not None and polled.called is not None and polled.called(0) == f"{store}/a@1"
    polled = reader.poll(10, 0.0)
    assert len(polled) == 10 and polled.place == ["b", 0, 11]
    reader.close()
    (tmp_path / "in" / "b").unlink()
    with pytest.raises(ConnectorError, match=r"/in/b: there is no such file"):
        bench.source().open(store, polled.place)
    bench.end["store"] = {"username": "cep", "password": "wrong"}
    with pytest.raises(ConnectorError, match="530 Authentication failed"):
        bench.source().open(store, None)


@pytest.mark.parametrize("path", ["file:///etc", "local:///etc", "in", "s3://bucket::file:///etc", "zip://a::/etc/b.zip"])
def test_a_store_is_no_way_to_this_disk(path: str) -> None:
    with pytest.raises(WrongDocument) as refused:
        described({"name": "c", "stream": "s", "from": {"connector": "files", "path": path}})
    assert refused.value.pointer == "/from/path"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("ftp://host/out", r"ftp:// has no writing that fails where something is there, .*; s3://"),
        ("file:///out", "file:// has no writing"),
        ("s3://bucket::file:///out", "one place"),
        ("out", "from the root on"),
    ],
)
def test_files_go_out_where_a_commit_can_be(path: str, said: str) -> None:
    with pytest.raises(WrongDocument, match=said) as refused:
        described({"name": "c", "stream": "s", "to": {"connector": "files", "path": path, "format": "json"}})
    assert refused.value.pointer == "/to/path"


def dying(*_: object) -> None:
    """Here the process is killed."""
    raise RuntimeError


DAYS = pa.schema([("day", pa.string()), ("shop", pa.int64()), ("number", pa.int64())])


def days(first: int, behind: int) -> pa.RecordBatch:
    rows = [{"day": None if i % 5 == 4 else f"2024-05-01 12:0{i % 5}", "shop": i % 2, "number": i} for i in range(first, behind)]
    return pa.RecordBatch.from_pylist(rows, DAYS)


@pytest.mark.parametrize("format_", ["json", "parquet"])
def test_folders_are_named_by_columns(format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where more are written to than there are files open, and if the writer dies just behind the commit."""
    monkeypatch.setattr("connectors.shipped.files_out.OPEN_MAX", 3)
    bench = FilesSinkBench(tmp_path)
    bench.end |= {"partition": ["day", "shop"], "format": format_}
    first = bench.sink().open("bench", 1)
    first.write(days(0, 40), "q.0")
    first.commit("40")
    first.write(days(40, 50), "q.1")
    first.write(days(50, 60), "q.2")
    first.abort()
    first.write(days(40, 60), "q.1")
    assert isinstance(first, FilesWriter)
    with monkeypatch.context() as killed, pytest.raises(RuntimeError):
        killed.setattr(first.place, "publish", dying)
        first.commit("60")
    second = bench.sink().open("bench", 2)
    assert second.token() == "60" and not list(tmp_path.rglob("*.part"))
    second.write(days(60, 61), "q.3")
    second.commit("61")
    second.close()
    read = pyarrow.dataset.dataset(tmp_path, format=format_, partitioning="hive", exclude_invalid_files=False).to_table()
    rows = sorted(read.to_pylist(), key=lambda row: row["number"])
    assert rows == [{"number": row["number"], "day": row["day"], "shop": row["shop"]} for row in days(0, 61).to_pylist()]
    names = sorted({str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("bench-*")})
    assert names[0] == "day=2024-05-01 12%3A00/shop=0" and names[-1] == "day=__HIVE_DEFAULT_PARTITION__/shop=1" and len(names) == 10


def test_what_cannot_name_folders_is_said(tmp_path: Path) -> None:
    bench = FilesSinkBench(tmp_path)
    for partition, said in (["dya"], "the stream has no column 'dya'"), (["day", "shop", "number"], "no column is left"):
        bench.end["partition"] = partition
        writer = bench.sink().open("bench", 1)
        with pytest.raises(ConnectorError, match=said):
            writer.write(days(0, 1), "q.0")
        writer.close()


def test_a_commit_that_is_there_counts_whatever_its_writer_was_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer was lost; and where it comes about later, or not at all, nothing is taken away that it may name."""
    writer = FilesSinkBench(tmp_path).sink().open("bench", 1)
    assert isinstance(writer, FilesWriter)
    put_new = writer.place.put_new

    def lost(name: str, content: bytes) -> None:
        put_new(name, content)
        raise ConnectorError("timed out")

    monkeypatch.setattr(writer.place, "put_new", lost)
    writer.write(days(0, 3), "q.0")
    writer.commit("3")
    late: list[tuple[str, bytes]] = []

    def delayed(name: str, content: bytes) -> None:
        late.append((name, content))
        raise ConnectorError("timed out")

    monkeypatch.setattr(writer.place, "put_new", delayed)
    writer.write(days(3, 5), "q.1")
    with pytest.raises(ConnectorError, match="timed out"):
        writer.commit("5")
    writer.abort()
    put_new(*late[0])
    following = FilesSinkBench(tmp_path).sink().open("bench", 2)
    assert following.token() == "5"
    following.close()
    assert sorted(FilesSinkBench(tmp_path).seen()) == list(range(5))


def test_an_old_commit_under_a_number_that_is_free_again_does_not_count(tmp_path: Path) -> None:
    bench = FilesSinkBench(tmp_path)
    old = bench.sink().open("bench", 1)
    old.write(days(0, 3), "q.0")
    new = bench.sink().open("bench", 2)
    for number in range(3):
        new.write(days(number, number + 1), "q.0")
        new.commit(str(number + 1))
    with pytest.raises(Fenced, match="its epoch is 2, ours 1"):
        old.commit("3")
    new.close()
    last = bench.sink().open("bench", 3)
    assert last.token() == "3" and sorted(bench.seen()) == [0, 1, 2]
    assert len(list((tmp_path / ".bench").iterdir())) == 1
    last.close()


@pytest.mark.parametrize("name", ["*", "[ab]", "q" * 1000, "語" * 300])
def test_any_name_has_files_of_its_own(name: str, tmp_path: Path) -> None:
    """Whatever is in it, and however long: it takes away no file that another one is writing."""
    bench = FilesSinkBench(tmp_path)
    others = [bench.sink().open(each, 1) for each in ("a", "a.b", name[:-1] + "x")]
    for other in others:
        other.write(days(0, 1), "q.0")
    for each in (name, "a.b.c"):
        own = bench.sink().open(each, 1)
        own.write(days(0, 5), "q.0")
        own.commit("5")
        own.close()
    bench.sink().open("a.", 1).close()
    for other in others:
        other.commit("1")
        other.close()
    assert len(list(tmp_path.glob("[!.]*"))) == 5


def test_a_long_value_names_a_folder_too(tmp_path: Path) -> None:
    """Which was found out behind the commit: the sink never got over it."""
    bench = FilesSinkBench(tmp_path)
    bench.end["partition"] = ["day"]
    writer = bench.sink().open("bench", 1)
    long = [{"day": "語" * count, "shop": 0, "number": count} for count in (300, 301)]
    writer.write(pa.RecordBatch.from_pylist(long, DAYS), "q.0")
    writer.commit("2")
    writer.close()
    assert len(list(tmp_path.glob("day=%E8*~*/bench-*"))) == 2
