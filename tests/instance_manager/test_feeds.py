"""Streams of other queries, when these have recovered."""

from __future__ import annotations

import pytest

from cep.dataflow.channel import Inbox
from cep.dataflow.sources.query_source import QuerySource
from cep.elements import Watermark
from cep.plan.physical import Feed
from instance_manager.feeds import _why_not
from instance_manager.hosting import Attachment

NEW = {"lineage": "1.1", "ended": False, "state": "running"}


@pytest.fixture
def behind() -> Attachment:
    """It was let in by two producers, which have begun another attempt since."""
    source = QuerySource("s", "q", (0, 1))
    made = Attachment(source, Feed("q", 1, ((0, "ipc:///a"), (1, "ipc:///b")), ("s",), ()), {}, 0)
    for producer in (0, 1):
        made.joined[producer] = Inbox(f"of {producer}", 1 << 20), "0.1"
    made.behind = {0, 1}
    return made


def test_a_producer_that_no_checkpoint_told_of_the_reader_lets_it_in_anew(behind: Attachment) -> None:
    assert _why_not(behind, 0, NEW) == ""
    assert _why_not(behind, 0, NEW | {"lineage": "0.1"}) == ""


def test_if_another_one_has_given_it_something_or_it_has_ended_the_stream_is_lost(behind: Attachment) -> None:
    why = "query 'q' has recovered from before a checkpoint covered that this query reads it; deploy this one anew"
    assert _why_not(behind, 0, NEW | {"ended": True, "state": "ended"}) == why
    inbox, _ = behind.joined[1]
    inbox.accept(Watermark(5), 0, 0, 5, 0)
    inbox.take()
    assert _why_not(behind, 0, NEW) == why
    assert _why_not(behind, 0, NEW | {"lineage": "0.1"}) == ""
