"""What a publisher that opens says, held against what is known of its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cep.dataflow.sources.published import PublishedSource
from cep.dataflow.sources.publishers import Closing, PublisherPartition, PublisherRefused
from instance_manager.clients import client_documents
from instance_manager.hosting import Entry


def is_covered(source: PublishedSource, name: str, document: Mapping[str, Any]) -> bool:
    """Has it closed before the checkpoint from which the source goes on, and not heard so?"""
    incarnation = client_documents.text(document, "incarnation", "")
    return bool(incarnation) and source.covered.get(name) == incarnation


def is_over(source: PublishedSource, name: str) -> bool:
    """Has it no use for that publisher any more?"""
    return source.ended or (source.ending and name not in source.resumes and name not in source.publishers)


def missing(source: PublishedSource, name: str, document: Mapping[str, Any], is_lost: bool) -> str:
    """What the publisher should send once more and has not kept, or, if that `is_lost`, another one of its name; empty: nothing."""
    known, incarnation = source.publishers.get(name), client_documents.text(document, "incarnation", "")
    wanted = source.left_off(name).elements if known is None else known.inbox.sequence
    first = client_documents.read_count(document, "kept_from", 0)
    if is_lost:
        return f"stream {source.stream!r}: what publisher {name!r} sent behind the last checkpoint is lost: this is another one of its name"
    if first <= wanted or (known is not None and known.incarnation == incarnation):
        return ""
    return (
        f"stream {source.stream!r}: publisher {name!r} has kept what it sent from element {first} on; the last checkpoint ends at {wanted}"
    )


def is_same(entry: Entry, publisher: PublisherPartition, endpoint: str, incarnation: str) -> bool:
    """Is it the one that has opened here, or one that was there before it under its name? One of which a ring tells is at no endpoint."""
    if incarnation and publisher.incarnation:
        return incarnation == publisher.incarnation
    return entry.endpoints.get(publisher.name) in ("", endpoint)


def gone(names: Sequence[str]) -> str:
    return ", ".join(f"publisher {name!r} does not answer" for name in names)


def cancel_closing(entry: Entry, publisher: PublisherPartition) -> None:
    """It comes again before its last word was taken, or that it was refused: that was not the last. Why it was is told all the same."""
    queue = publisher.inbox.queue
    last = queue[-1][0] if queue else None
    if isinstance(last, Closing | PublisherRefused):
        queue.pop()
    if isinstance(last, PublisherRefused):
        entry.source.tell_refused(publisher, last.reason)
