"""The example of docs/connectors.md passes the suite as written, found by its entry point; and the suites find what is wrong.

Tests `bench.py`, `source_suite.py`, `sink_suite.py`, `connectors/documents.py`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors import documents
from connectors.conformance import SinkBench, SinkSuite, SourceBench, SourceSuite
from connectors.contract import Polled
from connectors.documents import WrongDocument, described
from connectors.shipped.files import FilesReader, FilesWriter
from tests.connectors.shipped.test_files import FilesSinkBench, FilesSourceBench
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "connectors.md").read_text()


def stories_of(suite: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(suite, inspect.isfunction) if name.startswith("test_")]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The package of the page, and its tests."""
    for name, code in re.findall(r"```python file=(\w+)\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / f"{name}.py").write_text(code)
    ((group, entry),) = re.findall(r'```toml\n\[project.entry-points."([\w.]+)"\]\n(.*?)```', PAGE, re.DOTALL)
    info = tmp_path / "my_lines-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-lines\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n" + entry.replace('"', "") + "broken = my_lines:Lines\ngone = no_such_module:X\n")
    monkeypatch.syspath_prepend(tmp_path)
    caches = (documents.known, documents.loaded)
    for cache in caches:
        cache.cache_clear()
    yield __import__("test_my_lines")
    for cache in caches:
        cache.cache_clear()
    for name in ("my_lines", "test_my_lines"):
        sys.modules.pop(name, None)


def test_the_example_of_the_page_passes_the_suite(installed: Any, tmp_path: Path) -> None:
    for number, name in enumerate(stories_of(SourceSuite)):
        bench = installed.LinesBench(tmp_path / f"lines-{number}")
        bench.silence_s = 0.0
        getattr(installed.TestLines(), name)(bench)


def test_what_an_entry_point_leads_to_is_looked_at(installed: Any) -> None:
    """And told among the kinds, for the author to see."""
    for kind, said in (("broken", "my_lines:Lines is no Connector"), ("gone", "ModuleNotFoundError: No module named 'no_such_module'")):
        with pytest.raises(WrongDocument, match=said):
            described({"name": "x", "stream": "s", "from": {"connector": kind}})
    told = {each["connector"]: each for each in documents.kinds()}
    assert "is no Connector" in told["broken"]["error"] and told["lines"]["from"]["properties"].keys() == {"path"}
    with pytest.raises(WrongDocument, match="connector 'lines' takes no rows") as refused:
        described({"name": "x", "stream": "s", "to": {"connector": "lines"}})
    assert refused.value.pointer == "/to/connector"


# Each test of the suites fails for a connector that has a bug in what it is for


class Forgetful(FilesReader):
    """Its place is one record too far."""

    def poll(self, rows_max: int, timeout_s: float) -> Polled:
        found = super().poll(rows_max, timeout_s)
        name, byte, line = found.place
        return Polled([name, byte + 1, line], found.values) if len(found) else found


class Greedy(FilesReader):
    def poll(self, rows_max: int, timeout_s: float) -> Polled:
        return super().poll(rows_max + 1, timeout_s)


class Slow(FilesReader):
    def poll(self, rows_max: int, timeout_s: float) -> Polled:
        self.waiting.wait(2.5 if timeout_s == 0.1 else 0.0)
        return super().poll(rows_max, timeout_s)


class Choosy(FilesReader):
    """Leaves out what it does not understand."""

    def poll(self, rows_max: int, timeout_s: float) -> Polled:
        found = super().poll(rows_max, timeout_s)
        return Polled(found.place, [each for each in found.values if each.startswith(b"{")])


class HastyWriter(FilesWriter):
    """What is written has its name at once."""

    def write(self, rows: pa.RecordBatch, origin: str) -> None:
        super().write(rows, origin)
        self.commit(self.token() or "0")


class UnfencedWriter(FilesWriter):
    """Whoever comes may write, behind the last."""

    def _check(self) -> None:
        pass

    def _put(self, manifest: dict[str, Any]) -> None:
        self.number, _ = self._last()
        super()._put(manifest)


@pytest.mark.parametrize(
    ("reader", "name"),
    [
        (Forgetful, "test_it_goes_on_at_any_place"),
        (Forgetful, "test_twenty_kills_lose_nothing_and_repeat_nothing"),
        (Greedy, "test_no_more_than_was_asked_for"),
        (Slow, "test_a_poll_keeps_its_time"),
        (Choosy, "test_a_bad_record_is_one_of_many"),
    ],
)
def test_a_wrong_source_is_found(reader: type[FilesReader], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.shipped.files.FilesReader", reader)
    monkeypatch.setattr("connectors.conformance.source_suite.PATIENCE_S", 0.2)
    bench: SourceBench = FilesSourceBench(tmp_path)
    with pytest.raises(AssertionError):
        getattr(SourceSuite(), name)(bench)


@pytest.mark.parametrize(
    ("writer", "names"),
    [
        (HastyWriter, ("test_a_token_is_kept_with_its_rows", "test_what_is_aborted_is_not_there", "test_twenty_kills_lose_nothing")),
        (UnfencedWriter, ("test_an_old_writer_is_fenced_off",)),
    ],
)
def test_a_wrong_sink_is_found(writer: type[FilesWriter], names: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.shipped.files.FilesWriter", writer)
    for name in names:
        bench: SinkBench = FilesSinkBench(tmp_path / name)
        with pytest.raises(AssertionError):
            getattr(SinkSuite(), name)(bench)
