"""The parts of the process that runs connectors: pieces of numbers, notes, secrets and pauses.

Tests `secrets.py`, `notes.py`, `sink_run.py`, `source_run.py`, `connectors/running/figures.py`, `connectors/contract/source.py`,
`connectors/contract/sink.py`.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cep.model.streams import Stream
from cep.service.logs import JsonLines
from connectors.contract import ConnectorError, ConnectorOptions, Fenced, Secret, library
from connectors.documents import described
from connectors.formats.tables import ArrowTables
from connectors.running.figures import LETTERS_KEPT, ConnectorFigures
from connectors.running.fleet import STUCK_TURNS, Fleet
from connectors.running.notes import Notes
from connectors.running.numbering import runs_of
from connectors.running.pauses import FIRST_S, LAST_S, Pauses
from connectors.running.run import ConnectorRun
from connectors.running.secrets import Secrets, WithoutSecrets
from connectors.running.sink_run import Delivery, SinkRun
from connectors.running.source_run import SourceRun
from driver import stream
from driver.cluster import Cluster
from driver.streams.arrow import record_batches
from tests.support.waiting import until


@given(st.sets(st.integers(0, 30)), st.integers(0, 35))
def test_pieces_without_gaps_have_all_from_the_least_on(numbers: set[int], least: int) -> None:
    found = sorted(numbers)
    pieces = [found[begin:behind] for begin, behind in runs_of(found, least)]
    assert [each for piece in pieces for each in piece] == [each for each in found if each >= least]
    assert all(piece == list(range(piece[0], piece[-1] + 1)) for piece in pieces)
    assert all(left[-1] + 1 < right[0] for left, right in pairwise(pieces))


def test_a_note_is_whole_and_one_that_is_not_is_said(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "made")
    assert notes.read("a/b:c") is None
    notes.write("a/b:c", {"place": ["x", 1]})
    notes.write("a/b:c", {"place": ["y", 2]}, lasting=True)
    assert notes.read("a/b:c") == {"place": ["y", 2]}
    (file,) = (tmp_path / "made").iterdir()
    for content in (b"{", b"7", b""):
        file.write_bytes(content)
        with pytest.raises(ConnectorError, match=r"it is not known where 'a/b:c' was"):
            notes.read("a/b:c")


class Told(ConnectorOptions):
    password: Secret
    address: str = "x"
    names: tuple[str, ...] = ()


def test_secrets_are_read_here_and_said_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASS", "hunter22")
    (tmp_path / "key").write_text("deep secret\n")
    secrets = Secrets()
    told = Told(password="${env:PASS}", address="a:${env:PASS}@b", names=(f"${{file:{tmp_path}/key}}",))
    found = secrets.resolved(told)
    assert (found.password, found.address, found.names) == ("hunter22", "a:hunter22@b", ("deep secret",))
    assert secrets.without("cannot log in with 'hunter22', nor with deep secret") == "cannot log in with '***', nor with ***"
    assert "hunter22" not in repr(told)


def test_what_a_library_logs_is_without_secrets_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Secrets, "everywhere", set())
    monkeypatch.setenv("PASS", "hunter22")
    Secrets().resolved(Told(password="${env:PASS}"))
    form = WithoutSecrets(JsonLines("connectors"))
    try:
        raise ValueError("no entry for hunter22")
    except ValueError:
        record = logging.LogRecord("a.library", logging.INFO, "", 0, "GET http://x/?key=%s", ("hunter22",), sys.exc_info())
    told = json.loads(form.format(record))
    assert told["message"] == "GET http://x/?key=***" and "ValueError: no entry for ***" in told["exception"]


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("${env:NOT_THERE}", "no such variable"),
        ("${file:/not/there}", "No such file or directory"),
        ("${env:CEP_TOKEN}", "the cluster's own"),
    ],
)
def test_a_reference_that_leads_nowhere_is_said(reference: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEP_TOKEN", "the token")
    with pytest.raises(ConnectorError, match=said):
        Secrets().resolved(Told(password=reference))


def test_a_secret_does_not_stand_in_a_document() -> None:
    with pytest.raises(ValidationError, match=r"say \$\{env:NAME\}") as refused:
        Told(password="hunter22")
    assert refused.value.errors()[0]["loc"] == ("password",)


def test_a_library_that_is_not_here_is_named_with_its_extra() -> None:
    with pytest.raises(ConnectorError, match=r"pip install 'numa-cep\[kafka\]'"):
        library("no_such_library_at_all", "kafka")


def test_pauses_grow_to_a_limit() -> None:
    pauses = Pauses()
    found = [pauses.after_failure() for _ in range(12)]
    assert found[:3] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S] and found[-1] == LAST_S


def test_figures_keep_the_last_letters_and_add_up_what_waits() -> None:
    figures = ConnectorFigures()
    figures.behind |= {"a": 3, "b": 4}
    for number in range(LETTERS_KEPT + 5):
        figures.letter(f"a@{number}", "no", b"\xff" * 1000)
    told = figures.to_json()
    assert (told["behind"], told["dead_letters"], len(told["letters"])) == (7, LETTERS_KEPT + 5, LETTERS_KEPT)
    figures.behind["b"] = None
    assert figures.to_json()["behind"] is None


class Answers:
    """What one subscription gives, which is not resumable."""

    def __init__(self, *batches: pa.RecordBatch) -> None:
        self.batches = iter(batches)
        self.core = SimpleNamespace(token=None, query="q", options=SimpleNamespace(resumable=False))

    def next_named(self, timeout: float) -> tuple[pa.RecordBatch, str] | None:
        return next(((each, "o") for each in self.batches), None)

    def token(self) -> str:
        return "t"


def test_rows_that_a_format_has_no_place_for_are_not_written_without_it(tmp_path: Path) -> None:
    """Also if they come with another column than those before."""
    document = {"name": "a", "stream": "s", "to": {"connector": "files", "path": str(tmp_path), "format": "raw"}}
    run = SinkRun(described(document), 1, Cluster("http://127.0.0.1:1"), Notes(tmp_path))
    line, more = pa.RecordBatch.from_pydict({"line": ["one"]}), pa.RecordBatch.from_pydict({"line": ["two"], "price": [1.5]})
    sink = run.made(run.described.connector.sink)
    writer = sink.open("a", 1)
    answers: Any = Answers(line, line, more)
    with pytest.raises(ConnectorError, match=r"format: stream 's': raw values are of one column, .* has \['line', 'price'\]"):
        Delivery(run, sink, writer, answers).run()
    writer.commit("t")
    assert [path.read_bytes() for path in tmp_path.glob("a-*")] == [b"one\none\n"]


class Taken:
    """A cluster with one publisher, which takes what fits the stream."""

    def __init__(self, declared: Stream) -> None:
        self.stream, self.rows = declared, list[Any]()

    def publisher(self, *_: Any, **__: Any) -> Taken:
        return self

    def accepted(self) -> int:
        return 0

    def send(self, rows: pa.RecordBatch, first: int) -> int:
        taken = [row for each in record_batches(rows, self.stream) for row in each.to_pylist()]
        self.rows += taken
        return len(taken)

    def renew(self, publisher: object) -> bool:
        return False

    def close(self, **_: Any) -> None:
        """Nothing is kept."""


def test_a_file_that_makes_no_sense_does_not_keep_those_behind_it_from_being_read(tmp_path: Path) -> None:
    """Nor does a row that does not fit, though Python has no date to show its instant as."""
    instant = pa.array([2**60], pa.timestamp("us", "UTC"))
    files = [
        pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["n", "n"]),
        pa.RecordBatch.from_arrays([instant, pa.array(["x"])], ["t", "n"]),
        pa.RecordBatch.from_arrays([instant, pa.array([7])], ["t", "n"]).slice(0, 0),
        pa.RecordBatch.from_pydict({"n": [7]}),
    ]
    (tmp_path / "in").mkdir()
    for at, each in enumerate(files):
        (tmp_path / "in" / f"{at}").write_bytes(ArrowTables().file_of(each))
    document = {"name": "a", "stream": "s", "from": {"connector": "files", "path": str(tmp_path / "in"), "format": "arrow"}}
    cluster: Any = Taken(stream("s", t="timestamp?", n="int64"))
    run = SourceRun(described(document), 1, cluster, Notes(tmp_path / "notes"))
    run.start()
    until(lambda: cluster.rows)
    run.stop()
    assert run.join() and cluster.rows == [{"t": None, "n": 7}] and run.figures.failures == 0
    told = [(each["place"].rpartition("/")[2], each["reason"], each["value"]) for each in run.figures.letters]
    assert [place for place, _, _ in told] == ["0@1", "1@1"] and run.figures.dead_letters == 2
    assert told[0][1] == "column 'n' stands there twice" and "1152921504606846976" in told[1][2]


def test_rows_that_do_not_fit_are_left_out_whichever_field_says_so_first(tmp_path: Path) -> None:
    """Of the rows before the first one that is named one does not fit, too: by another field."""
    (tmp_path / "in").mkdir()
    file = ArrowTables().file_of(pa.RecordBatch.from_pydict({"a": [1, 2, 3, 2**40, 5], "b": [1, None, 3, 4, 5]}))
    (tmp_path / "in" / "0").write_bytes(file)
    document = {"name": "a", "stream": "s", "from": {"connector": "files", "path": str(tmp_path / "in"), "format": "arrow"}}
    cluster: Any = Taken(stream("s", a="int32", b="int64"))
    run = SourceRun(described(document), 1, cluster, Notes(tmp_path / "notes"))
    run.start()
    until(lambda: (run.figures.dead_letters == 2 and len(cluster.rows) == 3) or run.figures.failures)
    run.stop()
    assert run.join() and [row["a"] for row in cluster.rows] == [1, 3, 5] and run.figures.failures == 0
    assert sorted(each["place"].rpartition("/")[2] for each in run.figures.letters) == ["0@2", "0@4"]


class FencedTwice(ConnectorRun):
    """What it writes to gives its transactions up, twice."""

    begun = 0

    def work(self) -> bool:
        self.begun += 1
        if self.begun < 3:
            raise Fenced("a later writer has come")
        return True


def test_one_that_is_fenced_and_not_told_to_stop_tries_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But not before it could have heard that another has its connector."""
    monkeypatch.setattr("connectors.running.run.FENCED_S", 0.5)
    document = {"name": "a", "stream": "s", "to": {"connector": "files", "path": "/out", "format": "json"}}
    held, told = (FencedTwice(described(document), 1, Cluster("http://127.0.0.1:1"), Notes(tmp_path)) for _ in range(2))
    begun = time.monotonic()
    held.start()
    told.start()
    until(lambda: told.figures.state == "fenced")
    told.stop()
    assert held.join() and told.join()
    assert (held.begun, told.begun, held.figures.failures) == (3, 1, 2) and time.monotonic() - begun >= 1.0


class Stubborn(ConnectorRun):
    """Waits for what never comes."""

    def work(self) -> bool:
        self.never = getattr(self, "never", None) or threading.Event()
        return self.never.wait()


def test_one_that_does_not_stop_and_is_to_begin_anew_takes_its_process_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.running.fleet.SourceRun", Stubborn)
    fleet = Fleet(Cluster("http://127.0.0.1:1"), tmp_path, "here", "1")
    document = {"name": "a", "stream": "s", "from": {"connector": "files", "path": "/in"}}
    fleet.obey({"a": {"epoch": 1, "document": document}})
    (stuck,) = (run for _, _, run, _ in fleet.running.values())
    assert isinstance(stuck, Stubborn)
    for _ in range(2 * STUCK_TURNS):
        fleet.obey({})
    assert not fleet.closing.is_set(), "nothing waits for it"
    fleet.obey({"a": {"epoch": 2, "document": document}})
    assert fleet.closing.is_set() and not fleet.running
    until(lambda: hasattr(stuck, "never"))
    stuck.never.set()
