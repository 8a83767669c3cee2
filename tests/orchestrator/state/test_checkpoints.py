"""When a query that recovers is asked for a checkpoint, and when not."""

from __future__ import annotations

from dataclasses import replace

from cep.config import instance_node
from orchestrator.records import Status, StoredPiece
from orchestrator.state.checkpoint_budget import AT_ONCE
from orchestrator.state.checkpoints import AGAIN_S
from orchestrator.state.events import ManifestFailed, ScaleSubquery, StatusesSeen
from tests.orchestrator.state.test_cluster_state import IMS, manager
from tests.orchestrator.state.test_recovery import WithoutDisk
from tests.orchestrator.state.test_scaling import query

INTERVAL_S = 1.0  # of the query


class Told(WithoutDisk):
    """A query that runs on instance managers that do as they are told."""

    def __init__(self) -> None:
        super().__init__()
        self.managers = {im: manager(im) for im in IMS}
        self.see()
        self.submit(query().build())
        for state in ("ready", "running"):
            self.all_say(state)
        self.pass_time(INTERVAL_S)

    @property
    def asked(self) -> tuple[int, int, int]:
        return self.state.checkpoints["per-ip"].asked

    def all_tell(self, news: bool, error: str = "", took_us: int = 7, wants: bool = False) -> None:
        """Of the checkpoint that is asked for."""
        for number in range(len(self.state.plans["per-ip"].instances)):
            self.tells(number, news, error, took_us, wants)

    def tells(self, number: int, news: bool, error: str = "", took_us: int = 7, wants: bool = False) -> None:
        record, instance = self.state.queries["per-ip"], self.state.plans["per-ip"].instances[number]
        piece = StoredPiece(self.asked, "" if error else "a-piece", 7, 100, took_us, error)
        status = Status(record.epoch, "running", attempt=record.attempt, stored=piece, wants=wants, news=news)
        self.do(StatusesSeen(instance.im, {instance_node("per-ip", instance.subquery, instance.index): status}))


def test_one_in_which_nothing_happens_has_one_checkpoint() -> None:
    cluster = Told()
    first = cluster.asked
    assert first[2], "of an attempt there is always one"
    cluster.all_tell(news=False)
    assert cluster.state.checkpoints["per-ip"].is_committed
    cluster.pass_time(100 * INTERVAL_S)
    assert cluster.asked == first and cluster.state.taking.deadlines.first is None, "nobody wakes for it"


def test_one_that_has_rested_has_its_next_one_at_once() -> None:
    cluster = Told()
    cluster.all_tell(news=False)
    cluster.pass_time(100 * INTERVAL_S)
    before = cluster.asked
    cluster.tells(1, news=True)
    assert cluster.asked > before


def test_one_that_has_news_again_soon_has_its_next_one_after_the_interval() -> None:
    cluster = Told()
    cluster.all_tell(news=False)
    before = cluster.asked
    cluster.tells(0, news=True)
    assert cluster.asked == before
    cluster.pass_time(INTERVAL_S)
    assert cluster.asked > before


def test_one_that_failed_is_tried_again_though_nothing_happens() -> None:
    cluster = Told()
    cluster.all_tell(news=False, error="no space")
    before = cluster.asked
    cluster.pass_time(INTERVAL_S)
    assert cluster.asked > before


def test_a_manifest_that_cannot_be_written_leaves_the_next_checkpoint_as_it_was_asked_for() -> None:
    """It was asked for in the same moment. What was committed with that manifest was committed again, and again, until Python's stack was
    full and the query was set aside."""
    cluster = Told()
    cluster.all_tell(news=True)
    first = cluster.asked
    cluster.pass_time(INTERVAL_S)
    second = cluster.asked
    cluster.all_tell(news=True, wants=True)
    third = cluster.asked
    committed = cluster.state.checkpoints["per-ip"].committed
    assert first < second < third and committed is not None and committed.number == second
    cluster.do(ManifestFailed("per-ip", "no space left on device"))
    committed = cluster.state.checkpoints["per-ip"].committed
    assert cluster.asked == third and committed is not None and committed.number == first
    cluster.all_tell(news=True)
    committed = cluster.state.checkpoints["per-ip"].committed
    assert committed is not None and committed.number == third


def test_the_more_often_it_fails_the_later_it_is_tried_again() -> None:
    cluster, waited = Told(), list[float]()
    for _ in range(8):
        cluster.all_tell(news=True, error="no space")
        shown = cluster.state.taking.described("per-ip")
        assert shown is not None and shown["error"] == "no space"
        before, began = cluster.asked, cluster.now.steady
        while cluster.asked == before:
            cluster.pass_time(0.5)
        waited.append(cluster.now.steady - began)
    assert waited == [1.0, 2.0, 4.0, 8.0, AGAIN_S, AGAIN_S, AGAIN_S, AGAIN_S]
    cluster.all_tell(news=True)
    before = cluster.asked
    cluster.pass_time(INTERVAL_S)
    shown = cluster.state.taking.described("per-ip")
    assert cluster.asked > before and shown is not None and not shown["error"], "a commit forgives all of them"


def test_one_that_costs_much_is_taken_less_often() -> None:
    cluster = Told()
    for _ in range(40):  # the first counts little, the others by parts
        cluster.all_tell(news=True, took_us=90_000)
        cluster.pass_time(100.0)
    cluster.all_tell(news=True, took_us=90_000)
    before = cluster.asked
    cluster.pass_time(2.0)
    assert cluster.asked == before
    cluster.pass_time(100.0)
    assert cluster.asked > before


def test_a_change_does_not_wait_for_news() -> None:
    cluster = Told()
    cluster.all_tell(news=False)
    cluster.pass_time(10.0)
    before = cluster.asked
    cluster.do(ScaleSubquery("per-ip", "SQ2", 3))
    assert cluster.asked > before
    cluster.stores()
    assert cluster.state_of() == "recovering"


def test_of_many_that_are_due_at_once_most_wait_for_their_turn() -> None:
    """As when all begin to be fed; but not one that somebody waits for."""
    cluster = Told()
    cluster.all_tell(news=False)
    cluster.pass_time(100 * INTERVAL_S)
    taking = cluster.state.taking
    taking._courses |= {str(number): replace(taking._courses["per-ip"]) for number in range(AT_ONCE + 10)}
    for _ in range(AT_ONCE + 10):
        taking._budget.turn(cluster.now.steady, len(IMS), len(taking._courses))
    before = cluster.asked
    cluster.tells(0, news=True)
    assert cluster.asked == before
    due = taking.deadlines.first
    assert due is not None and cluster.now.steady < due < cluster.now.steady + 10.0
    cluster.pass_time(due - cluster.now.steady)
    assert cluster.asked > before
    for _ in range(AT_ONCE + 10):
        taking._budget.turn(cluster.now.steady, len(IMS), len(taking._courses))
    before = cluster.asked
    cluster.all_tell(news=True, wants=True)
    assert cluster.asked > before


def test_one_that_somebody_waits_for_takes_no_turn_from_others() -> None:
    """A query that is pressed for a minute had none for minutes, nor had any other."""
    cluster = Told()
    for _ in range(200):
        cluster.all_tell(news=True, wants=True)
    before, began = cluster.asked, cluster.now.steady
    cluster.all_tell(news=True)
    while cluster.asked == before:
        cluster.pass_time(0.5)
    assert cluster.now.steady - began < 3 * INTERVAL_S
