"""Queries that recover and tell their answers as they are made: no row is lost, none is there twice.

Tests `resuming.py`.
"""

from __future__ import annotations

import pytest

from tests.support.recovering import COLD, KILLS, OFTEN, PROGRAMS, PUBLISHED, SEEDS, told_at_once


@pytest.mark.parametrize("seed", (9, 22, 251))
def test_answers_are_the_references_though_instance_managers_die(seed: int) -> None:
    found = told_at_once(seed)
    assert found.wrong == [] and found.recoveries


@pytest.mark.parametrize("seed", (209, 220))
def test_over_published_streams_whose_publishers_die_too(seed: int) -> None:
    found = told_at_once(seed, PROGRAMS)
    assert found.wrong == [] and found.recoveries and found.faults["kill writer"]


@pytest.mark.parametrize("seed", (20, 221))
def test_a_cold_start_of_everything(seed: int) -> None:
    found = told_at_once(seed, COLD)
    assert found.wrong == [] and found.recoveries


def test_the_mark_of_an_instance_that_has_ended_promises_nothing() -> None:
    """Rows that its subscribers had no credit for were behind it."""
    found = told_at_once(258, OFTEN)
    assert found.wrong == [] and found.recoveries


def test_readers_that_die_too_are_gone_on_from() -> None:
    """Their rows come when a commit covers them."""
    found = told_at_once(46, resumes=True)
    assert found.wrong == [] and found.recoveries


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_seeds() -> None:
    every = ((seed, faults) for seed in (*SEEDS, *PUBLISHED) for faults in (KILLS, COLD, None))
    assert [found for seed, faults in every if (found := told_at_once(seed, faults)).wrong] == []
    assert [found for seed in PUBLISHED if (found := told_at_once(seed, PROGRAMS)).wrong] == []
