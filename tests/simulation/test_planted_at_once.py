"""Bugs that are planted in how answers are told at once: the simulation finds each."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest

from cep.elements import CheckpointBarrier, End
from driver.streams.producers import Producer
from driver.streams.resuming import regenerated
from driver.streams.resuming.regenerated import RegeneratedRows
from driver.streams.subscription_core import SubscriptionCore
from instance_manager.recovery.kept import KeptChannel
from instance_manager.recovery.told import ToldChannel
from tests.support.recovering import OFTEN, first_wrong

_found = partial(first_wrong, at_once=True)


class TestPlanted:
    """Bugs of a line each."""

    def test_rows_that_a_client_takes_though_it_has_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(RegeneratedRows, "_takes_out", lambda self, key: False)
        assert _found(20)

    def test_a_commit_that_empties_what_is_ahead(self, monkeypatch: pytest.MonkeyPatch) -> None:
        committed = RegeneratedRows.committed

        def forgetful(self: RegeneratedRows, number: int) -> None:
            committed(self, number)
            self.ahead.clear()
            self._times.clear()

        monkeypatch.setattr(RegeneratedRows, "committed", forgetful)
        assert _found(69)

    def test_rows_that_were_dropped_and_are_not_noted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        new_of = RegeneratedRows.new_of

        def noting_less(self: RegeneratedRows, mark: int, batch: Any) -> Any:
            new = new_of(self, mark, batch)
            if new.num_rows < batch.num_rows:
                self._notes[mark][-1] = new
            return new

        monkeypatch.setattr(RegeneratedRows, "new_of", noting_less)
        assert _found(214)

    def test_rows_of_before_the_checkpoint_that_count_as_made_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        go_back = RegeneratedRows.go_back
        monkeypatch.setattr(RegeneratedRows, "go_back", lambda self, number: go_back(self, 0))
        monkeypatch.setattr(RegeneratedRows, "committed", lambda self, number: None)
        assert _found(191)

    def test_what_is_ahead_as_a_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        go_back = RegeneratedRows.go_back

        def once(self: RegeneratedRows, number: int) -> None:
            go_back(self, number)
            self.ahead = Counter(dict.fromkeys(self.ahead, 1))

        monkeypatch.setattr(RegeneratedRows, "go_back", once)
        assert _found(260, faults=OFTEN)

    def test_elements_of_the_attempt_before_that_are_taken_yet(self, monkeypatch: pytest.MonkeyPatch) -> None:
        go_on = SubscriptionCore._go_on

        def quietly(self: SubscriptionCore, producer: Producer, endpoint: str, attempt: int) -> Any:
            before = self.attempt
            commands = go_on(self, producer, endpoint, attempt)
            self.attempt = before
            return commands

        monkeypatch.setattr(SubscriptionCore, "_go_on", quietly)
        assert _found(69)

    def test_numbers_of_the_attempt_before_that_count_behind_the_checkpoint(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ToldChannel, "following", lambda self, number, counted: number)
        assert _found(20)

    def test_marks_that_are_not_left(self, monkeypatch: pytest.MonkeyPatch) -> None:
        send = ToldChannel.send

        def unmarked(self: ToldChannel, element: Any, *given: Any) -> None:
            if not isinstance(element, CheckpointBarrier) or self.closed:
                send(self, element, *given)

        monkeypatch.setattr(ToldChannel, "send", unmarked)
        assert _found(191)

    def test_an_end_that_is_told_before_it_is_committed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        send = ToldChannel.send

        def end_at_once(self: ToldChannel, element: Any, *given: Any) -> None:
            send(self, element, *given)
            if isinstance(element, End):
                self._let_go(len(self.behind))

        monkeypatch.setattr(ToldChannel, "send", end_at_once)
        assert _found(345)

    def test_kept_rows_that_are_in_no_checkpoint(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ToldChannel, "kept", lambda self: iter(()))
        assert _found(32)

    def test_a_client_that_is_told_of_the_last_attempt_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ToldChannel, "_since", lambda self, attempt: next((r for r in self.restores[-1:] if r.attempt > attempt), None))
        assert _found(274, faults=OFTEN)

    def test_a_mark_that_names_a_checkpoint_as_committed_that_was_only_taken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        mark = ToldChannel._mark

        def hasty(self: ToldChannel, number: int, watermark: int) -> Any:
            self.committed = max(self.committed, number)
            return mark(self, number, watermark)

        monkeypatch.setattr(ToldChannel, "_mark", hasty)
        assert _found(69, faults=OFTEN)

    def test_rows_that_are_taken_for_others_of_the_same_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        keys_of = regenerated.keys_of
        monkeypatch.setattr(regenerated, "keys_of", lambda batch, salt: keys_of(batch.select(batch.schema.names[-1:]), salt))
        assert _found(70)

    def test_elements_without_rows_that_are_confirmed_by_what_was_consumed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Found by programs on a real cluster that did not read for a while."""
        monkeypatch.setattr(KeptChannel, "_is_confirmed", lambda self, following: self.unconfirmed[0][1] <= self.client.consumed)
        assert _found(1666, range(1000, 4000), OFTEN)
