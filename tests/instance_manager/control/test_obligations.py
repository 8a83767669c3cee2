"""What an instance is asked follows from its assignment before and now: tables of both, and of what comes out.

Tests `obligations.py`, `assignment_checks.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cep.config import instance_node
from cep.elements import TableBarrier
from cep.errors import ProtocolError
from instance_manager.control.assignment_checks import Assignment, Followed, Moving
from instance_manager.control.commands import (
    AddSubscriptions,
    DrainInstance,
    DropSubscriptions,
    FailInstance,
    FollowFeeds,
    InstanceCommand,
    LoseStreams,
    RerouteBuckets,
    RunInstance,
    StopInstance,
    TakeMoveStep,
)
from instance_manager.control.obligations import Obligations

HERE, PROCESS, KEY = "im-0", (7, 1), "q~SQ1~0"
ASKED = Assignment("q", "SQ1", 0, 1, PROCESS, "ready")
TABLES = {"SQ2": TableBarrier(1, (0, 1)), "SQ3": TableBarrier(2, (1, 0))}
A, B = {"stream": "out", "id": "a"}, {"stream": "out", "id": "b"}
MOVE = Moving(1, 2, "SQ2", 1, "im-9", "ipc:///old", "ipc:///new")
ARRIVING = Moving(1, 2, "SQ1", 0, HERE, "ipc:///old", "ipc:///new")
FOLLOWED = Followed(2, ((0, "ipc:///there"),))


def now(**changed: Any) -> Assignment:
    return replace(ASKED, **changed)


def document(asked: Assignment, **changed: Any) -> dict[str, Any]:
    own = {"query": asked.query, "subquery": asked.subquery, "instance": asked.instance, "epoch": asked.epoch}
    return own | {"process": list(asked.process), "desired": asked.desired, **changed}


def obliged(*obeyed: Assignment) -> Obligations:
    made = Obligations(HERE, PROCESS)
    for each in obeyed:
        made.obey(KEY, each, TABLES)
    return made


#: Before, now, what is asked.
CHANGES: list[tuple[Assignment | None, Assignment, list[InstanceCommand]]] = [
    (None, now(), []),
    (None, now(desired="run"), [RunInstance(KEY)]),
    (now(), now(desired="run"), [RunInstance(KEY)]),
    (now(desired="run"), now(desired="drain"), [DrainInstance(KEY)]),
    (now(desired="run"), now(desired="stop"), [StopInstance(KEY)]),
    (None, now(desired="stop"), [StopInstance(KEY)]),
    (now(desired="run"), now(desired="fail", cause="no", failed_subquery="SQ2", failed_instance=3), [FailInstance(KEY, "SQ2", 3, "no")]),
    (now(desired="run"), now(desired="fail"), [FailInstance(KEY, "SQ1", None, "")]),
    # of subscriptions those that are new, of tables all that are named, for one instance reads them together
    (now(subscriptions=[A]), now(subscriptions=[A, B]), [AddSubscriptions(KEY, [B])]),
    (now(subscriptions=[A, B]), now(subscriptions=[B]), [DropSubscriptions(KEY, frozenset({A["id"]}))]),
    (now(tables={"SQ2": 1}), now(tables={"SQ2": 1, "SQ3": 2}), [RerouteBuckets(KEY, TABLES)]),
    (now(tables={"SQ2": 1}), now(tables={"SQ2": 1}, desired="run"), [RunInstance(KEY)]),
    (now(), now(lost={"in": "q0 has failed"}), [LoseStreams(KEY, {"in": "q0 has failed"})]),
    (now(), now(feeds={"in": FOLLOWED}), [FollowFeeds(KEY, {"in": FOLLOWED})]),
    (now(feeds={"in": FOLLOWED}), now(feeds={"in": FOLLOWED}, desired="run"), [RunInstance(KEY)]),
    # a move begins, goes on, and is over
    (now(), now(move=MOVE), [TakeMoveStep(KEY, MOVE)]),
    (now(move=MOVE), now(move=replace(MOVE, step=3)), [TakeMoveStep(KEY, replace(MOVE, step=3))]),
    (now(move=MOVE), now(), [TakeMoveStep(KEY, None)]),
    # all of it together: what is lost and where it moves before what it is to be
    (
        now(),
        now(desired="run", lost={"in": "x"}, move=MOVE, tables={"SQ2": 1}, subscriptions=[A]),
        [
            LoseStreams(KEY, {"in": "x"}),
            TakeMoveStep(KEY, MOVE),
            RerouteBuckets(KEY, {"SQ2": TABLES["SQ2"]}),
            AddSubscriptions(KEY, [A]),
            RunInstance(KEY),
        ],
    ),
    # another deployment is asked for everything anew, also for what the one before had been asked
    (
        now(desired="run", tables={"SQ2": 1}, subscriptions=[A], move=MOVE),
        now(epoch=2, desired="run", tables={"SQ2": 1}, subscriptions=[A]),
        [RerouteBuckets(KEY, {"SQ2": TABLES["SQ2"]}), AddSubscriptions(KEY, [A]), RunInstance(KEY)],
    ),
]


@pytest.mark.parametrize("before,asked,commands", CHANGES)
def test_what_is_asked(before: Assignment | None, asked: Assignment, commands: list[InstanceCommand]) -> None:
    made = obliged(*([] if before is None else [before]))
    assert made.obey(KEY, asked, TABLES) == commands
    assert made.obeyed == {KEY: asked} and made.refused == {}


@pytest.mark.parametrize(
    "before,asked,is_new",
    [
        (None, now(), True),
        (now(), now(desired="run"), False),
        (now(), now(epoch=2), True),
        (now(epoch=2), now(epoch=1), True),
        (now(), now(move=MOVE), False),
        (now(desired="run"), now(desired="run", move=replace(ARRIVING, im="im-9")), False),  # it leaves
        (None, now(move=ARRIVING), True),
        (now(move=replace(MOVE, number=1)), now(move=replace(ARRIVING, number=2)), True),  # it left with the first, and is back
        (now(move=ARRIVING), now(move=replace(ARRIVING, step=3)), False),
        (now(move=ARRIVING), now(), False),  # it has arrived
    ],
)
def test_what_is_to_be_built(before: Assignment | None, asked: Assignment, is_new: bool) -> None:
    made = obliged(*([] if before is None else [before]))
    assert made.is_new(KEY, asked) is is_new


def test_what_is_for_another_process_is_left_alone() -> None:
    made = obliged()
    keys = {instance_node("q", "SQ1", i): now(instance=i, process=(7, i)) for i in range(3)}
    assert made.understood({key: document(each) for key, each in keys.items()}) == {"q~SQ1~1": keys["q~SQ1~1"]}


def test_what_is_obeyed_already_is_not_obeyed_again() -> None:
    made = obliged(now(desired="run"))
    assert made.understood({KEY: document(now(desired="run"))}) == {}
    assert made.understood({KEY: document(now(desired="drain"))}) == {KEY: now(desired="drain")}


@pytest.mark.parametrize(
    "wrong,why",
    [
        (None, "expected an object"),
        ([], "expected an object"),
        (document(now(), desired="remove"), "desired: expected one of"),
        (document(now(instance=1)), "this belongs to 'q~SQ1~1'"),
        (document(now(), process="7"), "process"),
        (document(now(), subscriptions=[A, {"stream": "out"}]), "expected each with the texts 'stream' and 'id', got {'stream': 'out'}"),
        (ProtocolError("the node cannot be read: NoAuthError"), "NoAuthError"),
    ],
)
def test_what_makes_no_sense_is_refused_and_what_runs_goes_on(wrong: Any, why: str) -> None:
    made = obliged(now(desired="run"))
    assert made.understood({KEY: wrong}) == {}
    assert why in made.refused[KEY] and made.obeyed == {KEY: now(desired="run")}
    assert made.understood({KEY: document(now(desired="drain"))}) != {} and made.refused == {}


def test_what_nobody_foresaw_is_refused_too() -> None:
    """What is asked of others stands behind it."""
    made = obliged(now())
    assert made.obey(KEY, now(desired="run", subscriptions=[{}]), {}) == [] and "KeyError: 'stream'" in made.refused[KEY]


def test_one_more_subscription_is_not_compared_with_all_others() -> None:
    class Counted(dict[str, str]):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return super().__eq__(other)

    def many(count: int) -> list[dict[str, str]]:
        return [Counted(stream="out", id=f"s-{i}") for i in range(count)]

    made, asked = obliged(now(subscriptions=many(50))), now(subscriptions=many(51))
    assert made.obey(KEY, asked, {}) == [AddSubscriptions(KEY, [asked.subscriptions[-1]])]
    assert Counted.compared < 500


@pytest.mark.parametrize("tables,why", [({}, "there is no table of the buckets of 'SQ2'"), (ProtocolError("no table"), "no table")])
def test_without_its_tables_it_is_asked_what_comes_before_them(tables: Any, why: str) -> None:
    made = obliged(now())
    assert made.obey(KEY, now(move=MOVE, tables={"SQ2": 1}, desired="run"), tables) == [TakeMoveStep(KEY, MOVE)]
    assert why in made.refused[KEY]


def test_tables_are_read_where_they_have_changed() -> None:
    made = obliged(now(tables={"SQ2": 1}))
    assert made.tables_wanted({KEY: now(tables={"SQ2": 1}, desired="run")}) == set()
    assert made.tables_wanted({KEY: now(tables={"SQ2": 2})}) == {"q"}
    assert made.tables_wanted({KEY: now(epoch=2, tables={"SQ2": 1})}) == {"q"}
    assert made.tables_wanted({"r~SQ1~0": now(query="r"), "s~SQ1~0": now(query="s", tables={"SQ2": 1})}) == {"s"}


def test_what_is_withdrawn_is_forgotten() -> None:
    made = obliged(now())
    made.obey("q~SQ1~1", now(instance=1), {})
    made.understood({"q~SQ1~2": None, "q~SQ1~1": None})
    assert made.withdrawn({"q~SQ1~1"}) == [KEY]
    assert made.obeyed.keys() == made.refused.keys() == {"q~SQ1~1"}
    assert made.withdrawn({"q~SQ1~1"}) == []
