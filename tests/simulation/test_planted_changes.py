"""Bugs of a line each in scaling and upgrading: runs in which subqueries get other numbers of instances find them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cep.dataflow.movement.owners import everything
from cep.elements import State
from cep.plan import scaling
from instance_manager.control import building
from instance_manager.recovery import scaled
from orchestrator.state import deployments
from tests.support.recovering import changed_wrong


class TestPlanted:
    """Bugs of a line each."""

    @pytest.mark.long  # its run ends by its patience
    def test_state_that_each_of_the_new_instances_has(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(scaled.Shared, "keep", lambda self, operator: everything)
        assert changed_wrong(4157)

    @pytest.mark.long  # its run ends by its patience
    def test_state_of_its_own_piece_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def parts(self: scaled.Shared, operator: str) -> Any:
            return [part for part in scaled.parts_in(self.pieces.get(self.index, ()), operator)]

        monkeypatch.setattr(scaled.Shared, "parts", parts)
        assert changed_wrong(4157)

    def test_readers_of_streams_that_are_scaled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(scaling, "why_fixed", lambda plan, name: "")
        assert changed_wrong(4005)

    def test_an_attempt_by_the_plan_before(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(building, "is_dealt_anew", lambda before, after, subquery=None: False)
        assert changed_wrong(4048)

    def test_a_change_that_begins_anew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        enter = deployments.Deployments._enter

        def from_nothing(self: Any, record: Any, state: str, now: Any, places: Any = None, plan: Any = None) -> None:
            enter(self, record, state, now, places, plan)
            if plan is not None:
                self.model.queries[record.name] = replace(self.model.queries[record.name], restore=None)

        monkeypatch.setattr(deployments.Deployments, "_enter", from_nothing)
        assert changed_wrong(4157)

    @pytest.mark.long  # its run ends by its patience
    def test_state_that_an_upgrade_leaves_behind(self, monkeypatch: pytest.MonkeyPatch) -> None:
        as_read_by = building.as_read_by

        def without(before: Any, after: Any, piece: Sequence[State]) -> list[State]:
            is_same = [each.parallelism for each in before.subqueries] == [each.parallelism for each in after.subqueries]
            told = as_read_by(before, after, piece)
            changed = is_same and before.query.operators[-1].explained() != after.query.operators[-1].explained()
            return [state for state in told if not state.operator] if changed else told

        monkeypatch.setattr(building, "as_read_by", without)
        assert changed_wrong(4157)
