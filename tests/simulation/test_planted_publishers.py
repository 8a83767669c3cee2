"""Bugs of a line each in what publishers keep, and in what outlives them: runs in which they are killed find them."""

from __future__ import annotations

from typing import Any

import pytest

from cep.dataflow.sources.published import PublishedSource
from cep.dataflow.sources.publishers import TakenUntil
from driver.streams.publisher_core import PublisherCore
from driver.streams.readers import StreamReader, StreamReaders
from instance_manager.clients.heir import Heir
from instance_manager.clients.publishers import Publishers
from instance_manager.recovery import checkpoints as taking
from tests.support.recovering import PROGRAMS, PUBLISHED, first_wrong


class TestPlantedWithPublishers:
    """Likewise, in what publishers keep."""

    def test_a_log_that_is_let_go_before_the_commit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        take = taking.Checkpoints._take

        def hasty(self: taking.Checkpoints, hosted: Any, packed: int) -> None:
            take(self, hosted, packed)
            self.publishers.cover(hosted.recovery.taken[packed])

        monkeypatch.setattr(taking.Checkpoints, "_take", hasty)
        assert first_wrong(281, PUBLISHED)

    @pytest.mark.long
    def test_a_last_word_that_is_confirmed_when_it_is_heard(self, monkeypatch: pytest.MonkeyPatch) -> None:
        close = Publishers.close

        def at_once(self: Publishers, header: Any, document: Any) -> None:
            close(self, header, document)
            if header.channel in self.here:
                self.let_go(header.channel, word={"heard": True, "covered": True})

        monkeypatch.setattr(Publishers, "close", at_once)
        assert first_wrong(221, PUBLISHED)

    @pytest.mark.long
    def test_nothing_that_is_sent_once_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        reopen = StreamReader._reopen

        def as_if_new(self: StreamReader, header: Any, said: Any) -> None:
            reopen(self, header, said)
            self.next = self.sequence

        monkeypatch.setattr(StreamReader, "_reopen", as_if_new)
        assert first_wrong(211, PUBLISHED)

    @pytest.mark.long
    def test_entries_that_do_not_name_their_attempt(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(StreamReaders, "_goes_on", lambda *given: None)
        assert first_wrong(208, PUBLISHED)

    @pytest.mark.long
    def test_rows_that_are_judged_by_the_stamp_of_another_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        backlog = StreamReader.backlog

        def stamped_anew(self: StreamReader) -> Any:
            yield from ((header._replace(stamp=self.watermark), body) for header, body in backlog(self))

        monkeypatch.setattr(StreamReader, "backlog", stamped_anew)
        assert first_wrong(305, PUBLISHED)


class TestPlantedWithKilledPublishers:
    """Likewise, in what outlives them."""

    def test_rings_that_no_reader_looks_into(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Heir, "look", lambda *given: None)
        monkeypatch.setattr(Heir, "precede", lambda *given: None)
        assert first_wrong(220, PUBLISHED, PROGRAMS)

    @pytest.mark.long
    def test_the_last_element_of_a_ring_that_is_left_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        hear = Heir._hear

        def all_but_one(self: Heir, channel: int, given: Any, known: Any, element: Any) -> None:
            if element.number + 1 < given.log.end:
                hear(self, channel, given, known, element)

        monkeypatch.setattr(Heir, "_hear", all_but_one)
        assert first_wrong(220, PUBLISHED, PROGRAMS)

    def test_what_is_sent_and_is_in_no_ring(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(PublisherCore, "_is_laid", lambda *given: False)
        assert first_wrong(220, PUBLISHED, PROGRAMS)

    def test_numbers_that_begin_anew_with_each_publisher_of_a_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(PublishedSource, "left_off", lambda self, name: self.resumes.get(name) or TakenUntil(0, 0))
        assert first_wrong(532, PUBLISHED, PROGRAMS)
