"""Event times far from now: dead letters, unless the stream says that it has such; then they are judged as all others.

Tests `lateness.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from cep.dataflow.channel import Inbox
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.sources.blocks import cut_blocks
from cep.dataflow.sources.files import FileSource
from cep.dataflow.sources.published import PublishedSource
from cep.dataflow.sources.publishers import Published, PublisherPartition
from cep.dataflow.sources.source import Reading
from cep.dataflow.sources.text import TextFormat
from cep.elements import MIN_TIME, Batch
from cep.errors import QueryError
from cep.kernels.column import Column
from cep.model import streams
from cep.model.limits import EVENT_TIMES
from cep.model.schema import TIMESTAMP_US
from cep.world.store import DiskStore
from driver import files, stream
from driver.cli import _notes

NOW_MS = 1_800_000_000_000
FIRST, LAST = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1900, 2200))
HINT = "event time: expected a year from 1900 to 2199; is the unit the one that the stream declares?"


def test_the_years() -> None:
    assert EVENT_TIMES["1900-2200"] == (FIRST * 1_000_000, LAST * 1_000_000 - 1)


def source_of(event_times: str) -> tuple[PublishedSource, PublisherPartition]:
    declared = stream("s", ts="timestamp[s]", event_time="ts", disorder="0s", event_times=event_times)
    source = PublishedSource("s", 0, 0, False, DeadLetters(), times=declared.times)
    publisher = PublisherPartition("p", 0, Inbox("p", 0))
    source.open(publisher)
    return source, publisher


def send(source: PublishedSource, publisher: PublisherPartition, seconds: list[int]) -> list[int]:
    """What is on time of it, s."""
    times = np.array(seconds, np.int64) * 1_000_000
    batch = Batch({"ts": Column(TIMESTAMP_US, times)}, times)
    publisher.inbox.accept(Published(batch, MIN_TIME, 0), 1, publisher.inbox.sequence, MIN_TIME, MIN_TIME)
    found = source.read()
    return [] if found is None else (found.time // 1_000_000).tolist()


def test_milliseconds_sent_as_seconds() -> None:
    """Before, they were taken, closed every window before the year 55,841, and made all that came after them late."""
    source, publisher = source_of("1900-2200")
    assert send(source, publisher, [NOW_MS // 1000, NOW_MS, FIRST - 1, FIRST, LAST]) == [NOW_MS // 1000]
    assert (source.odd_times, source.late_rows) == (3, 1)  # 1900 is late, which is another thing
    letters = [letter.reason for letter in source.dead_letters.letters]
    assert all(reason.startswith(HINT) for reason in letters)
    assert letters[1].endswith("got 1899-12-31T23:59:59.000Z")


def test_a_stream_that_has_any() -> None:
    source, publisher = source_of("any")
    assert send(source, publisher, [FIRST - 1, LAST, NOW_MS]) == [FIRST - 1, LAST, NOW_MS]
    assert source.odd_times == 0


def test_many_at_once_are_counted_and_the_last_kept() -> None:
    source, publisher = source_of("1900-2200")
    assert send(source, publisher, [NOW_MS] * 5000) == []
    assert (source.odd_times, source.dead_letters.counts["s"], len(source.dead_letters.letters)) == (5000, 5000, 1000)


@pytest.mark.parametrize("event_times, kept, odd", [("1900-2200", [1], 1), ("any", [1, 2], 0)])
def test_files(tmp_path: Path, event_times: str, kept: list[int], odd: int) -> None:
    path = tmp_path / "in.csv"
    path.write_text(f"{NOW_MS // 1000},1\n{NOW_MS},2\n")
    declared = files("s", ts="timestamp[s]", n=int, paths=str(path), event_time="ts", disorder="0s", event_times=event_times)
    letters, format_ = DeadLetters(), TextFormat.of(declared, ("ts", "n"), 1 << 20, DiskStore())
    reading = Reading(declared, 0, 1, 0, False, declared.schema, letters, lambda: 0, DiskStore())
    source = FileSource(reading, format_, cut_blocks(declared, [(str(path), path.stat().st_size)], format_))
    batch = source.read()
    assert batch is not None and batch.columns["n"].values.tolist() == kept
    assert [HINT in letter.reason for letter in letters.letters] == [True] * odd
    assert source.odd_times == odd


def test_documents() -> None:
    declared = stream("s", ts="timestamp[s]", event_time="ts", disorder="0s", event_times="any")
    document = streams.to_json(declared)
    assert document["event_times"] == "any"
    assert streams.from_json(document) == declared
    assert "event_times" not in streams.to_json(stream("s", ts="timestamp[s]", event_time="ts", disorder="0s"))
    for wrong in ("some", 7, None, []):
        with pytest.raises(QueryError, match="event_times of stream 's': expected '1900-2200' or 'any'") as refused:
            streams.from_json(document | {"event_times": wrong})
        assert refused.value.pointer == "/event_times"


def test_status_says_so() -> None:
    found = [{"name": "q", "placed": [], "unused": {"late": 0, "odd_times": 3, "before_since": 0, "dead_letters": 3}}]
    assert any("q: 3 rows with event times outside the years that their stream allows" in note for note in _notes(found))
