"""Bugs of a line each in checkpoints and in what comes back from them: runs in which instance managers die find them.

Tests `cep/plan/checkpoints.py`, `instance_manager/recovery/checkpoints.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cep.dataflow.sources.files import FileSource
from cep.elements import End
from cep.errors import ClusterError
from cep.plan.channels import ChannelId
from cep.plan.checkpoints import CheckpointNumber
from cep.world.archive import Archive, WrittenFile
from driver.streams.inquiry import Inquiry
from instance_manager.recovery import checkpoints as taking
from instance_manager.recovery import pieces
from instance_manager.recovery.kept import KeptChannel
from orchestrator import manifests
from orchestrator.state import recovery
from orchestrator.state.checkpoints import Checkpoints
from tests.support.recovering import FULL, GROUPS, PUBLISHED, SELDOM, first_wrong


class TestPlanted:
    """Bugs of a line each."""

    def test_state_that_is_not_restored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pieces, "parts_in", lambda states, operator: [])
        assert first_wrong(428)

    def test_figures_that_are_not_restored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pieces, "take_figures", lambda *given: None)
        assert first_wrong(58)

    @pytest.mark.long  # rare: none of the first six hundred seeds finds it
    def test_blocks_that_are_dealt_anew_to_a_reader_that_knows_of_its_own_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = FileSource.position
        monkeypatch.setattr(FileSource, "position", lambda self: whole(self) | {"dealt": []})
        assert first_wrong(752, range(4000))

    def test_rows_that_are_told_before_they_are_committed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        send = KeptChannel.send

        def at_once(self: KeptChannel, *given: Any) -> None:
            send(self, *given)
            self._let_go(len(self.behind))

        monkeypatch.setattr(KeptChannel, "send", at_once)
        assert first_wrong(47)

    def test_a_checkpoint_that_counts_as_committed_when_an_own_piece_is_stored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        note = taking.Checkpoints.note

        def hasty(self: taking.Checkpoints, hosted: Any, stored: taking.PieceStored) -> None:
            note(self, hosted, stored)
            self._cover(hosted, CheckpointNumber(*stored.document["number"]).packed)

        monkeypatch.setattr(taking.Checkpoints, "note", hasty)
        assert first_wrong(323)

    def test_an_end_that_is_told_before_it_is_committed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        send = KeptChannel.send

        def end_at_once(self: KeptChannel, element: Any, *given: Any) -> None:
            send(self, element, *given)
            if isinstance(element, End):
                self._let_go(len(self.behind))

        monkeypatch.setattr(KeptChannel, "send", end_at_once)
        assert first_wrong(1076)

    def test_kept_rows_that_are_in_no_checkpoint(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(KeptChannel, "kept", lambda self: iter(()))
        assert first_wrong(32)

    def test_an_outlet_that_goes_on_from_its_first_row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        resume = KeptChannel.resume
        monkeypatch.setattr(KeptChannel, "resume", lambda self, *given: resume(self, 0, 0))
        assert first_wrong(321)

    @pytest.mark.long
    def test_an_outlet_that_does_not_wait_for_its_client(self, monkeypatch: pytest.MonkeyPatch) -> None:
        restore = KeptChannel.restore

        def eager(self: KeptChannel, *given: Any) -> None:
            restore(self, *given)
            self.answered = True
            self.client.grant(0, 1 << 30, 0)
            self.pump()

        monkeypatch.setattr(KeptChannel, "restore", eager)
        assert first_wrong(58)

    def test_channels_that_do_not_name_their_attempt(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ChannelId, "canonical", property(lambda self: f"{self}@{self.lineage}"))
        assert first_wrong(35)

    def test_a_recovery_that_begins_anew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        next_attempt = recovery.next_attempt

        def from_nothing(*given: Any) -> Any:
            record, plan = next_attempt(*given)
            return replace(record, restore=None), plan

        monkeypatch.setattr(recovery, "next_attempt", from_nothing)
        assert first_wrong(321)

    def test_an_instance_that_has_ended_and_counts_no_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(taking.Checkpoints, "stepped", lambda self, hosted: None)
        assert first_wrong(167)

    def test_pieces_of_another_number_that_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        look = Checkpoints._look

        def any_number(self: Checkpoints, record: Any, known: Any, course: Any, given: Any, now: Any) -> Any:
            statuses = [self.model.status(record, each) for each in self.model.plans[record.name].instances]
            there = [each.stored for each in statuses if each is not None and each.stored is not None]
            return look(self, record, known, course, there, now)

        monkeypatch.setattr(Checkpoints, "_look", any_number)
        assert first_wrong(321)

    def test_what_had_no_room_on_the_disk_and_counts_as_stored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write = Archive.write

        def careless(self: Archive, *given: Any) -> WrittenFile:
            try:
                return write(self, *given)
            except ClusterError:
                return WrittenFile(0, 0)

        monkeypatch.setattr(Archive, "write", careless)
        assert first_wrong(222, PUBLISHED, FULL)

    def test_subscriptions_that_the_orchestrator_does_not_know(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Inquiry, "register", lambda self: None)
        assert first_wrong(167)

    @pytest.mark.long
    def test_pieces_that_are_swept_though_later_ones_need_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(manifests, "_is_of_no_use", lambda manifest, oldest, name: name[: len(oldest)] < manifest[: len(oldest)])
        assert first_wrong(8022, GROUPS, SELDOM)
