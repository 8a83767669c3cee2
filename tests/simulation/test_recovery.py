"""Queries that recover, whose instance managers are killed: what comes out is the reference's, and bugs of the protocol are found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from cep.dataflow.sources.files import FileSource
from cep.dataflow.sources.published import PublishedSource
from cep.dataflow.sources.publishers import TakenUntil
from cep.elements import End
from cep.plan.channels import ChannelId
from cep.plan.checkpoints import CheckpointNumber
from driver.streams.inquiry import Inquiry
from driver.streams.publisher_core import PublisherCore
from driver.streams.readers import StreamReader, StreamReaders
from driver.streams.subscription_core import SubscriptionCore
from instance_manager.clients.heir import Heir
from instance_manager.clients.publishers import Publishers
from instance_manager.recovery import checkpoints as taking
from instance_manager.recovery import pieces
from instance_manager.recovery.kept import KeptChannel
from orchestrator.state import recovery
from orchestrator.state.checkpoints import Checkpoints
from simulation.__main__ import SeedRun, run_seed
from simulation.faults import EVERYTHING, Fault
from simulation.schedule import MS, ScheduleTrace
from simulation.workload import PUBLISHED_FROM, SEEDS_OF_A_QUERY

#: So that most instance managers die while the query is at work, some of them while it recovers.
KILLS = [Fault("kill instance manager", after_ms * MS) for after_ms in (700, 400, 50, 900, 1500)]
#: The program that publishes is killed right behind an instance manager, so that what it has sent since is in its ring alone.
PROGRAMS = [Fault(("kill instance manager", "kill writer")[i % 2], ms * MS) for i, ms in enumerate((500, 10, 1200, 5, 900, 20, 700, 2))]
#: Twice the whole cluster, ZooKeeper too, the second time perhaps before it has come back.
COLD = [Fault(EVERYTHING, after_ms * MS) for after_ms in (800, 5_000)]
#: Seeds of queries that recover (`simulation.workload`).
SEEDS = tuple(seed for seed in range(600) if seed // 4 % 3 == 2)
#: Likewise over published streams.
PUBLISHED = tuple(seed for seed in range(SEEDS_OF_A_QUERY * PUBLISHED_FROM, 800) if seed // SEEDS_OF_A_QUERY % 3 == 1)


def killed(seed: int, resumes: bool = False) -> SeedRun:
    """`resumes`: its readers die too, and others go on from their tokens."""
    return run_seed(seed, ScheduleTrace(), KILLS, resumes)


@pytest.mark.parametrize("seed", (9, 22, 251))
def test_a_query_whose_instance_managers_die_answers_as_the_reference_does(seed: int) -> None:
    found = killed(seed)
    assert found.wrong == [] and found.recoveries


@pytest.mark.parametrize("seed", (221, 235, 269))
def test_one_over_published_streams_does_too(seed: int) -> None:
    found = killed(seed)
    assert found.wrong == [] and found.recoveries


@pytest.mark.parametrize("seed", (209, 220))
def test_one_whose_publishers_are_killed_as_well_does_too(seed: int) -> None:
    """They come again, and go on from the rows that were accepted."""
    found = run_seed(seed, ScheduleTrace(), PROGRAMS)
    assert found.wrong == [] and found.recoveries and found.faults["kill writer"]


@pytest.mark.parametrize("seed", (11, 46, 223))
def test_readers_that_die_too_are_gone_on_from(seed: int) -> None:
    found = killed(seed, resumes=True)
    assert found.wrong == [] and found.recoveries


@pytest.mark.parametrize("seed", (20, 22, 221))
def test_a_cold_start_of_everything(seed: int) -> None:
    found = run_seed(seed, ScheduleTrace(), COLD)
    assert found.wrong == [] and found.recoveries


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_seeds() -> None:
    assert [
        found
        for seed in (*SEEDS, *PUBLISHED)
        for found in (killed(seed), killed(seed, resumes=True), run_seed(seed, ScheduleTrace()), run_seed(seed, ScheduleTrace(), COLD))
        if found.wrong
    ] == []
    assert [found for seed in PUBLISHED if (found := run_seed(seed, ScheduleTrace(), PROGRAMS)).wrong] == []


def _found(first: int, others: Iterable[int] = SEEDS, faults: Sequence[Fault] = KILLS, resumes: bool | None = False) -> str:
    """What is wrong with the first run that something is wrong with; `first` is the seed that finds it, as long as strategies stay."""
    runs = (run_seed(seed, ScheduleTrace(), faults, resumes) for seed in (first, *others))
    return next(found.wrong[0] for found in runs if found.wrong)


class TestPlanted:
    """Bugs of a line each."""

    def test_state_that_is_not_restored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pieces, "merged_pieces", lambda states, operator: [])
        assert _found(191)

    def test_figures_that_are_not_restored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pieces, "take_figures", lambda *given: None)
        assert _found(58)

    @pytest.mark.long  # rare: none of the first six hundred seeds finds it
    def test_blocks_that_are_dealt_anew_to_a_reader_that_knows_of_its_own_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = FileSource.position
        monkeypatch.setattr(FileSource, "position", lambda self: whole(self) | {"dealt": []})
        assert _found(752, range(4000))

    def test_rows_that_are_told_before_they_are_committed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        send = KeptChannel.send

        def at_once(self: KeptChannel, *given: Any) -> None:
            send(self, *given)
            self._let_go(len(self.behind))

        monkeypatch.setattr(KeptChannel, "send", at_once)
        assert _found(298)

    def test_a_checkpoint_that_counts_as_committed_when_an_own_piece_is_stored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        note = taking.Checkpoints.note

        def hasty(self: taking.Checkpoints, hosted: Any, stored: taking.PieceStored) -> None:
            note(self, hosted, stored)
            self._cover(hosted, CheckpointNumber(*stored.document["number"]).packed)

        monkeypatch.setattr(taking.Checkpoints, "note", hasty)
        assert _found(248)

    def test_an_end_that_is_told_before_it_is_committed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        send = KeptChannel.send

        def end_at_once(self: KeptChannel, element: Any, *given: Any) -> None:
            send(self, element, *given)
            if isinstance(element, End):
                self._let_go(len(self.behind))

        monkeypatch.setattr(KeptChannel, "send", end_at_once)
        assert _found(69)

    def test_kept_rows_that_are_in_no_checkpoint(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(KeptChannel, "kept", lambda self: iter(()))
        assert _found(897)

    def test_an_outlet_that_goes_on_from_its_first_row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        resume = KeptChannel.resume
        monkeypatch.setattr(KeptChannel, "resume", lambda self, *given: resume(self, 0, 0))
        assert _found(586)

    def test_an_outlet_that_does_not_wait_for_its_client(self, monkeypatch: pytest.MonkeyPatch) -> None:
        restore = KeptChannel.restore

        def eager(self: KeptChannel, *given: Any) -> None:
            restore(self, *given)
            self.answered = True
            self.client.grant(0, 1 << 30, 0)
            self.pump()

        monkeypatch.setattr(KeptChannel, "restore", eager)
        assert _found(897)

    def test_channels_that_do_not_name_their_attempt(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ChannelId, "canonical", property(lambda self: f"{self}@{self.lineage}"))
        assert _found(310)

    def test_a_recovery_that_begins_anew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        next_attempt = recovery.next_attempt

        def from_nothing(*given: Any) -> Any:
            record, plan = next_attempt(*given)
            return replace(record, restore=None), plan

        monkeypatch.setattr(recovery, "next_attempt", from_nothing)
        assert _found(586)

    def test_an_instance_that_has_ended_and_counts_no_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(taking.Checkpoints, "stepped", lambda self, hosted: None)
        assert _found(167)

    def test_pieces_of_another_number_that_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        look = Checkpoints._look

        def any_number(self: Checkpoints, record: Any, known: Any, course: Any, given: Any, now: Any) -> Any:
            statuses = [self.model.status(record, each) for each in self.model.plans[record.name].instances]
            there = [each.stored for each in statuses if each is not None and each.stored is not None]
            return look(self, record, known, course, there, now)

        monkeypatch.setattr(Checkpoints, "_look", any_number)
        assert _found(167)

    def test_subscriptions_that_the_orchestrator_does_not_know(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Inquiry, "register", lambda self: None)
        assert _found(167)


class TestPlantedWithPublishers:
    """Likewise, in what publishers keep."""

    def test_a_log_that_is_let_go_before_the_commit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        take = taking.Checkpoints._take

        def hasty(self: taking.Checkpoints, hosted: Any, packed: int) -> None:
            take(self, hosted, packed)
            self.publishers.cover(hosted.recovery.taken[packed])

        monkeypatch.setattr(taking.Checkpoints, "_take", hasty)
        assert _found(211, PUBLISHED)

    @pytest.mark.long
    def test_a_last_word_that_is_confirmed_when_it_is_heard(self, monkeypatch: pytest.MonkeyPatch) -> None:
        close = Publishers.close

        def at_once(self: Publishers, header: Any, document: Any) -> None:
            close(self, header, document)
            if header.channel in self.here:
                self.let_go(header.channel, word={"heard": True, "covered": True})

        monkeypatch.setattr(Publishers, "close", at_once)
        assert _found(221, PUBLISHED)

    def test_nothing_that_is_sent_once_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        reopen = StreamReader._reopen

        def as_if_new(self: StreamReader, header: Any, said: Any) -> None:
            reopen(self, header, said)
            self.next = self.sequence

        monkeypatch.setattr(StreamReader, "_reopen", as_if_new)
        assert _found(211, PUBLISHED)

    def test_entries_that_do_not_name_their_attempt(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(StreamReaders, "_goes_on", lambda *given: None)
        assert _found(208, PUBLISHED)

    @pytest.mark.long
    def test_rows_that_are_judged_by_the_stamp_of_another_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        backlog = StreamReader.backlog

        def stamped_anew(self: StreamReader) -> Any:
            yield from ((header._replace(stamp=self.watermark), body) for header, body in backlog(self))

        monkeypatch.setattr(StreamReader, "backlog", stamped_anew)
        assert _found(305, PUBLISHED)


class TestPlantedWithKilledPublishers:
    """Likewise, in what outlives them."""

    def test_rings_that_no_reader_looks_into(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Heir, "look", lambda *given: None)
        monkeypatch.setattr(Heir, "precede", lambda *given: None)
        assert _found(220, PUBLISHED, PROGRAMS)

    def test_the_last_element_of_a_ring_that_is_left_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        hear = Heir._hear

        def all_but_one(self: Heir, channel: int, given: Any, known: Any, element: Any) -> None:
            if element.number + 1 < given.log.end:
                hear(self, channel, given, known, element)

        monkeypatch.setattr(Heir, "_hear", all_but_one)
        assert _found(209, PUBLISHED, PROGRAMS)

    def test_what_is_sent_and_is_in_no_ring(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(PublisherCore, "_is_laid", lambda *given: False)
        assert _found(220, PUBLISHED, PROGRAMS)

    def test_numbers_that_begin_anew_with_each_publisher_of_a_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(PublishedSource, "left_off", lambda self, name: self.resumes.get(name) or TakenUntil(0, 0))
        assert _found(220, PUBLISHED, PROGRAMS)


class TestPlantedWithTokens:
    """Likewise, in what other processes go on with."""

    @pytest.mark.long
    def test_what_is_let_go_by_credit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sent = KeptChannel._sent

        def forgetful(self: KeptChannel, *given: Any) -> bool:
            gone = sent(self, *given)
            if gone and len(self.unconfirmed) > 1:
                self._confirm()
            return gone

        monkeypatch.setattr(KeptChannel, "_sent", forgetful)
        assert _found(69, resumes=True)

    @pytest.mark.long  # rare; `tests/instance_manager/recovery/test_kept.py` has it without the simulation
    def test_a_next_attempt_that_counts_as_acknowledged(self, monkeypatch: pytest.MonkeyPatch) -> None:
        resume = KeptChannel.resume
        monkeypatch.setattr(KeptChannel, "resume", lambda self, following, _: resume(self, following, following))
        assert _found(69, range(4000), resumes=True)

    def test_two_processes_on_one_channel(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ChannelId, "to", lambda self, subscription, holder=0: replace(self, receiver=subscription))
        assert _found(8, resumes=True)

    def test_a_token_that_is_ahead_of_its_program(self, monkeypatch: pytest.MonkeyPatch) -> None:
        position = SubscriptionCore.position

        def ahead(self: SubscriptionCore) -> Any:
            token = position(self)
            ahead = (replace(each, following=each.following + bool(each.following and not each.ended)) for each in token.positions)
            return replace(token, positions=tuple(ahead))

        monkeypatch.setattr(SubscriptionCore, "position", ahead)
        assert _found(11, resumes=True)
