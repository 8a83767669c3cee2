"""Every number and text from outside has a bound, and the same one wherever it comes in."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cep.dataflow.outputs.staged import staged_name
from cep.errors import QueryError
from cep.model.duration import parse_duration
from cep.model.limits import HELD_BYTES_MAX, KEEP_S_MAX, SPAN_US_MAX, checked_endpoint, name_in_files
from cep.model.query import options_from_json
from cep.model.sinks import JsonLinesSink, name_of
from cep.model.streams import TextFiles
from cep.plan.checkpoints import CheckpointNumber, folder_of, piece_name, stem_of
from connectors.running.notes import Notes
from driver.streams.producers import SubscriptionOptions
from instance_manager.clients.subscriptions import Terms
from orchestrator.rest.models import MoveRequest, OpeningOf, RebalanceRequest, SubscriptionRequest

NO_NUMBERS = (1e10, -1, 0, math.inf, math.nan, 10**5000)


@pytest.mark.parametrize("keep", NO_NUMBERS, ids=lambda n: "huge" if n > 1e100 and n != math.inf else str(n))
class TestKeep:
    """How long rows are held for a reader that is gone: 1e10 seconds overflowed a time-out of every orchestrator to come."""

    def test_rest(self, keep: float) -> None:
        with pytest.raises(ValidationError):
            SubscriptionRequest(id="s", endpoint="ipc:///s", keep=keep)

    def test_driver(self, keep: float) -> None:
        with pytest.raises(QueryError, match="keep_s: expected a number from"):
            SubscriptionOptions(keep_s=keep)

    def test_instance_manager(self, keep: float) -> None:
        with pytest.raises(QueryError, match="keep_s: expected a number from"):
            Terms("s", "ipc:///s", keep_s=keep)


def test_what_is_within_the_bounds_is_taken() -> None:
    assert SubscriptionRequest(id="s", endpoint="ipc:///s", keep=KEEP_S_MAX).keep == KEEP_S_MAX
    assert Terms("s", "link://h2@[::1]:65535/run/s", keep_s=KEEP_S_MAX, budget_bytes=HELD_BYTES_MAX).keep_s == KEEP_S_MAX
    assert parse_duration("1d") == 86_400_000_000


@pytest.mark.parametrize("text", ["9" * 5000 + "d", "9" * 19 + "d", "83399994d", timedelta.max, timedelta.min])
def test_a_duration_beyond_all_event_times_is_refused(text: Any) -> None:
    with pytest.raises(QueryError, match="disorder: expected"):
        parse_duration(text, "disorder")


@pytest.mark.parametrize("digit", ["\u0663s", "\uff13s", "\u00b2s"])
def test_digits_of_a_duration_are_those_of_ascii(digit: str) -> None:
    with pytest.raises(QueryError, match="expected a whole number"):
        parse_duration(digit)


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "ipc://",
        "ipc:///a\0b",
        "ipc:///\udcff",
        "ipc:///" + "x" * 440,
        "link://h@h:65536/p",
        "link://h@h/p",
        "http://h:1",
        "link://h@a b:1/p",
        "link://a b@h:1/p",
        "tcp://h:1",
    ],
)
def test_an_endpoint_that_no_socket_has_is_refused(endpoint: str) -> None:
    with pytest.raises(QueryError, match="endpoint: expected"):
        checked_endpoint(endpoint)
    with pytest.raises(QueryError, match="endpoint: expected"):
        OpeningOf(stream="s", name="p", endpoint=endpoint)


@pytest.mark.parametrize("number", [-1, 4096, 10**30])
def test_instances_are_counted_within_bounds(number: int) -> None:
    with pytest.raises(ValidationError):
        RebalanceRequest(subquery=None, table=[number])
    with pytest.raises(ValidationError):
        MoveRequest(subquery="SQ1", instance=number, im="im-0")


@pytest.mark.parametrize("option", ["parallelism", "replicas", "buckets"])
def test_options_are_bounded(option: str) -> None:
    with pytest.raises(QueryError, match=f"{option}: expected at most"):
        options_from_json({option: 2**40})


def test_blocks_of_files_are_bounded() -> None:
    for size in (1, 2**63):
        with pytest.raises(QueryError, match="block_bytes: expected a number from 1,024 to"):
            TextFiles(("/f",), block_bytes=size)


def test_spans_leave_room_in_int64() -> None:
    assert 2**61 + 2 * SPAN_US_MAX < 2**63


@pytest.mark.parametrize("letter", ["q", "é", "語", "😀", "%"])
def test_every_name_fits_into_the_name_of_a_file(letter: str, tmp_path: Path) -> None:
    """Of an output, a folder of checkpoints, a piece and a connector's note; names that differ have files that do. A percent-encoded name
    of 300 letters was longer than any file system takes."""
    names = [letter * count for count in (1, 10, 56, 57, 170, 171, 999, 1000)] + [name_in_files(letter * 171)]
    number = CheckpointNumber(65_535, 2**22, 2**24)
    for make in (
        lambda name: staged_name(name_of(JsonLinesSink("/d"), name, 99_999, 99_999), 65_535),
        lambda name: folder_of(name, 2**31),
        lambda name: f"{piece_name(number, name, 99_999, (2**31, 2**31))}.new",
    ):
        for name in names:
            (tmp_path / make(name)).touch(exist_ok=False)
    notes = Notes(tmp_path / "notes")
    for name in names:
        notes.write(name, {"name": name})
    assert [notes.read(name) for name in names] == [{"name": name} for name in names]
    assert all(folder_of(name, 7).startswith(stem_of(name)) for name in names)
