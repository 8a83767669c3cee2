"""Files in a folder and out of one: the suites, and what is theirs alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.conformance import SinkBench, SinkSuite, SourceBench, SourceSuite
from connectors.contract import ConnectorError, FileFormat, Polled
from connectors.formats.known import FORMATS
from connectors.shipped.files import FilesIn, FilesReader


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
    (tmp_path / ".bench.manifest").write_text("{")
    with pytest.raises(ConnectorError, match=r"makes no sense, so it is not known what was written"):
        FilesSinkBench(tmp_path).sink().open("bench", 1)
