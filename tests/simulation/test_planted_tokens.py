"""Bugs of a line each in what other processes go on with: runs in which readers die find them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cep.plan.channels import ChannelId
from driver.streams.subscription_core import SubscriptionCore
from instance_manager.recovery.kept import KeptChannel
from tests.support.recovering import first_wrong


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
        assert first_wrong(69, resumes=True)

    @pytest.mark.long  # rare; `tests/instance_manager/recovery/test_kept.py` has it without the simulation
    def test_a_next_attempt_that_counts_as_acknowledged(self, monkeypatch: pytest.MonkeyPatch) -> None:
        resume = KeptChannel.resume
        monkeypatch.setattr(KeptChannel, "resume", lambda self, following, _: resume(self, following, following))
        assert first_wrong(69, range(4000), resumes=True)

    def test_two_processes_on_one_channel(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ChannelId, "to", lambda self, subscription, holder=0: replace(self, receiver=subscription))
        assert first_wrong(8, resumes=True)

    @pytest.mark.long
    def test_a_token_that_is_ahead_of_its_program(self, monkeypatch: pytest.MonkeyPatch) -> None:
        position = SubscriptionCore.position

        def ahead(self: SubscriptionCore) -> Any:
            token = position(self)
            ahead = (replace(each, following=each.following + bool(each.following and not each.ended)) for each in token.positions)
            return replace(token, positions=tuple(ahead))

        monkeypatch.setattr(SubscriptionCore, "position", ahead)
        assert first_wrong(11, resumes=True)
