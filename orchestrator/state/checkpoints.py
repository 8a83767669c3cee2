"""Checkpoints of the queries that recover: when one is asked for, and when it is committed. Pure.

Rules:

1. One is under way at a time. It is committed when every instance has stored its piece; if one could not, it comes to nothing.
2. The next is asked for when the interval is over: what the user wants, or so long that taking and writing the last ones cost no more than
   `SHARE` of the time of any instance manager, with those of all other queries there (`checkpoint_budget`). Of many that are due at once
   most wait for their turn. An instance that has no time to wait says so, and takes no turn from others. One that failed is tried again
   later and later.
3. A query in which nothing has come in and nothing gone out since the last commit has none: it would be the same. Its instances say so.
4. A new leader knows only what is written. What another one had asked for comes to nothing: its own numbers are greater.
5. The manifest is written before the node that names it, which is the commit.
6. A query that is to become another (`QueryRecord.change`) does so behind a commit that was asked for then, at once: so little or nothing
   is made again. Where that is to be nothing, its instances stand still behind the Barrier, until it has become the other one or will not.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cep.plan import physical
from cep.plan.checkpoints import CheckpointNumber, folder_of, manifest_name, recovers
from orchestrator.deadlines import Deadlines
from orchestrator.records import CommittedCheckpoint, Now, QueryCheckpoints, QueryRecord, Status, StoredPiece
from orchestrator.state.checkpoint_budget import CheckpointBudget
from orchestrator.state.cluster_model import ClusterModel
from orchestrator.state.desired_nodes import DesiredNodes
from orchestrator.state.events import ForgetCheckpoints, WriteManifest
from orchestrator.state.losses import missing

LATELY = 4  # of the mean cost of the last checkpoints, the part of the last one; the second of an attempt counts as it is
ONCE = 64  # so small a part of its cost the first of an attempt counts, if it has the whole state and the next ones have what has changed
STEADY_S = 10.0  # after which a failure has nothing to do with the last one
AGAIN_S, AGAIN_DOUBLINGS = 10.0, 8  # the longest pause behind one that failed, if its interval is shorter
STEPS = 4  # of an interval, at least
TOGETHER = 16  # queries, or so: an instance manager that is at the checkpoints of more keeps the answers of others waiting
HEARD_US = 1000  # of an instance manager's CPU, to hear of one and of its commit, and to tell: of a small query that is most of it
LOOK_S = 0.1  # so long it is left alone while not all instances run
_TAKING = frozenset(("running", "draining"))
_THERE = frozenset(("running", "paused", "ended"))


@dataclass(slots=True)
class _Course:
    """Of a query: when the next one is due, by the steady clock, and what the last ones cost. `failed`: the last that came to nothing."""

    due: float
    took_us: int = 0
    costs_us: dict[str, float] = field(default_factory=dict)  # by instance manager
    taken: int = 0  # in this attempt
    failures: int = 0  # since the last commit
    error: str = ""
    failed: CheckpointNumber | None = None
    before: QueryCheckpoints | None = None  # the last commit
    rests: bool = False  # until an instance has something that the last commit has not
    in_turn: bool = False  # among all that are due: `due` is when it may begin


class Checkpoints:
    """Changes `model.checkpoints`, and has manifests written. `term`: of this leader; `led_s`: as `CheckpointBudget` has it."""

    def __init__(self, model: ClusterModel, desired: DesiredNodes, term: int, led_s: float) -> None:
        self.model, self.desired, self.term = model, desired, term
        self._courses: dict[str, _Course] = {}
        self.deadlines = Deadlines()  # of those that wait for nothing but time
        self._budget = CheckpointBudget(led_s)
        self._texts: dict[str, tuple[physical.PhysicalPlan, str]] = {}
        self._serial = 0

    def deployed(self, name: str) -> None:
        """A query that recovers has none yet."""
        if recovers(self.model.plans[name]):
            self.model.checkpoints[name] = QueryCheckpoints()
            self.desired.do(ForgetCheckpoints(name, self.model.queries[name].epoch - 1))

    def forget(self, name: str) -> None:
        self._courses.pop(name, None)
        self.deadlines.drop(name)
        self._budget.forget(name)
        self._texts.pop(name, None)

    def advance(self, record: QueryRecord, now: Now) -> QueryRecord:
        """Commits what is stored, asks for the next one if it is due. The record: a commit ends the count of strikes."""
        known = self.model.checkpoints.get(record.name)
        if known is None:
            return record
        if record.state not in _TAKING:
            self.forget(record.name)
            return record
        course = self._courses.setdefault(record.name, _Course(now.steady + self._interval_s(record.name)))
        statuses = [self.model.status(record, instance) for instance in self.model.plans[record.name].instances]
        if self._is_under_way(record, known, course):
            pieces = [status.stored for status in statuses if status is not None and status.stored is not None]
            record = self._look(record, known, course, [each for each in pieces if each.number == known.asked], now)
        if self.may_change(record):
            course.due = now.steady  # when the manifest is there
        elif not self._is_under_way(record, self.model.checkpoints[record.name], course):
            self._rest(record.name, course, self._would_be_the_same(record, statuses))
            if self._is_due(record, course, statuses, now):
                self._ask(record, course, now)
        known = self.model.checkpoints[record.name]
        if known.pauses and record.change is None:  # it will not become another one, so its instances go on
            self.model.checkpoints[record.name] = replace(known, pauses=False)
        if course.rests or self._is_under_way(record, known, course):
            self.deadlines.drop(record.name)
        else:
            self.deadlines.put(record.name, course.due)
        return record

    def may_change(self, record: QueryRecord) -> bool:
        """Has what it waits for been committed before it becomes another query, or has other instances? After a loss it first goes on as
        it is: all may have died since that commit, and with them the orchestrator that would have seen it."""
        change, known = record.change, self.model.checkpoints.get(record.name)
        if change is None or known is None or known.committed is None or record.state != "running":
            return False
        if CheckpointNumber(*known.committed.number).attempt != record.attempt or not self.model.has_looked or missing(self.model, record):
            return False
        return known.committed.number > change.behind and (known.is_committed or not change.pauses)

    def _is_under_way(self, record: QueryRecord, known: QueryCheckpoints, course: _Course) -> bool:
        asked = CheckpointNumber(*known.asked)
        return (asked.attempt, asked.term) == (record.attempt, self.term) and asked != course.failed and not known.is_committed

    def _is_due(self, record: QueryRecord, course: _Course, statuses: Sequence[Status | None], now: Now) -> bool:
        if any(status is None or status.state not in _THERE for status in statuses):
            course.due = max(course.due, now.steady + LOOK_S)
            return False  # it would wait for one that does not run yet
        wanted = any(status is not None and status.wants for status in statuses) and not course.error
        if wanted or record.change is not None:
            return True
        if now.steady < course.due or course.rests:
            return False
        if not course.in_turn:
            course.due, course.in_turn = self._budget.turn(now.steady, len(self.model.managers), len(self._courses)), True
        return now.steady >= course.due

    def _rest(self, name: str, course: _Course, rests: bool) -> None:
        if rests != course.rests:
            course.rests = rests
            (self._budget.rest if rests else self._budget.go_on)(name)

    def _would_be_the_same(self, record: QueryRecord, statuses: Sequence[Status | None]) -> bool:
        """Is the last one that was asked for committed, in this attempt, and has no instance anything that it has not?"""
        known = self.model.checkpoints[record.name]
        if known.committed is None or not known.is_committed or CheckpointNumber(*known.committed.number).attempt != record.attempt:
            return False
        return not any(status is None or status.news for status in statuses)

    def _ask(self, record: QueryRecord, course: _Course, now: Now) -> None:
        self._serial += 1
        known = self.model.checkpoints[record.name]
        number = CheckpointNumber(record.attempt, self.term, self._serial)
        pauses = record.change is not None and record.change.pauses
        self.model.checkpoints[record.name] = QueryCheckpoints(number, known.committed, pauses)
        course.in_turn = False
        course.due = _together(now.steady, self._interval_s(record.name), self._budget.counted)
        self._rest(record.name, course, False)

    def _look(self, record: QueryRecord, known: QueryCheckpoints, course: _Course, pieces: Sequence[StoredPiece], now: Now) -> QueryRecord:
        """Which pieces of the one that is under way are there?"""
        broken = next((each.error for each in pieces if each.error), "")
        if broken:
            self._note_failure(record.name, course, CheckpointNumber(*known.asked), broken, now)
            return unchanged(record, broken)
        if len(pieces) == len(self.model.plans[record.name].instances):
            self._commit(record, known, course, pieces, now)
            course.took_us = max(each.took_us for each in pieces)
            course.error, course.failures = "", 0
            self._note_cost(record, course, pieces)
            course.due = max(course.due, now.steady + self._interval_s(record.name) / 2)
            return self._forgiven(record, now)
        return record

    def _note_cost(self, record: QueryRecord, course: _Course, pieces: Sequence[StoredPiece]) -> None:
        instances = self.model.plans[record.name].instances
        costs = Counter({instance.im: HEARD_US for instance in instances})
        for instance, each in zip(instances, pieces, strict=True):
            costs[instance.im] += each.took_us + each.wrote_us
        first = 1 if all(each.whole for each in pieces) else ONCE
        known, part = course.costs_us, (first, 1, LATELY)[min(course.taken, 2)]
        course.costs_us = {im: known.get(im, 0) + (cost - known.get(im, 0)) / part for im, cost in costs.items()}
        course.taken += 1
        self._budget.note(record.name, {im: cost / 1e6 for im, cost in course.costs_us.items()}, len(self.model.managers))

    def _note_failure(self, name: str, course: _Course, number: CheckpointNumber, why: str, now: Now) -> None:
        """It came to nothing; what it was asked for is asked for again, later and later, for a disk that is full stays so for a while."""
        course.failed, course.error = number, why
        course.failures += 1
        pause_s = self._interval_s(name) * 2 ** min(course.failures - 1, AGAIN_DOUBLINGS)
        course.due = max(course.due, now.steady + min(pause_s, max(AGAIN_S, self._interval_s(name))))

    def _commit(self, record: QueryRecord, known: QueryCheckpoints, course: _Course, pieces: Sequence[StoredPiece], now: Now) -> None:
        instances = self.model.plans[record.name].instances
        places = [f"{instance.subquery}/{instance.index}" for instance in instances]
        files = {place: {"piece": each.piece, "crc": each.crc, "bytes": each.bytes} for place, each in zip(places, pieces, strict=True)}
        number = CheckpointNumber(*known.asked)
        own = {"query": record.name, "epoch": record.epoch, "number": list(number), "pieces": files}
        text = f'{json.dumps(own)[:-1]}, "plan": {self._plan_text(record.name)}}}'
        size = sum(each.bytes for each in pieces)
        committed = CommittedCheckpoint(number, manifest_name(number), zlib.crc32(text.encode()), size, round(now.wall, 3))
        course.before = known
        self.model.checkpoints[record.name] = replace(known, committed=committed)
        oldest = min(CheckpointNumber(*(each.oldest or number)) for each in pieces)
        self.desired.do(WriteManifest(record.name, folder_of(record.name, record.epoch), committed.manifest, text, oldest))

    def _plan_text(self, name: str) -> str:
        """As JSON, made once: it takes as long as all else that the orchestrator does for a checkpoint. Its columns and functions stand in
        order."""
        plan = self.model.plans[name]
        known = self._texts.get(name)
        if known is None or known[0] is not plan:
            known = self._texts[name] = plan, json.dumps(physical.to_json(plan))
        return known[1]

    def _forgiven(self, record: QueryRecord, now: Now) -> QueryRecord:
        """It goes on: what it has lost before does not count any more. What fails by itself fails again at the same row, perhaps with a
        commit before it: that is forgotten when it has run for a while."""
        runs = now.wall - record.times.get("recovering", 0.0) > STEADY_S
        return replace(record, strikes=0 if runs else record.strikes, suspect=())

    def manifest_failed(self, name: str, why: str, now: Now) -> list[str]:
        """It could not be written, so it is not named: the last commit holds. The next one may be asked for already, and goes on. The
        queries it concerns."""
        course = self._courses.get(name)
        if course is None or course.before is None or name not in self.model.checkpoints:
            return []
        self._note_failure(name, course, CheckpointNumber(*course.before.asked), why, now)
        self.model.checkpoints[name] = replace(self.model.checkpoints[name], committed=course.before.committed)
        self.model.queries[name] = unchanged(self.model.queries[name], why)
        return [name]

    def _interval_s(self, name: str) -> float:
        """Seconds between two: what is asked for, or what the budget allows."""
        return max(self.model.plans[name].query.options.checkpoint / 1e6, self._budget.least_s(name))

    def described(self, name: str) -> dict[str, object] | None:
        """For status: how often, how much, what was wrong with the last one, and whether there is nothing that it has not."""
        known = self.model.checkpoints.get(name)
        if known is None:
            return None
        course, committed = self._courses.get(name, _Course(0.0)), known.committed
        options = self.model.plans[name].query.options
        shown: dict[str, object] = {"interval_s": round(self._interval_s(name), 3), "asked_s": options.checkpoint / 1e6}
        shown |= {"took_us": course.took_us, "error": course.error, "rests": course.rests}
        last = None if committed is None else {"number": list(committed.number), "bytes": committed.bytes, "at": committed.at}
        return shown | {"last": last}


def _together(now: float, interval_s: float, queries: int) -> float:
    """When the next one is due. Those of some of so many queries fall on the same moment: what is read and written for them in one go costs
    half."""
    step_s = interval_s / max(STEPS, queries / TOGETHER)
    return round((now + interval_s) / step_s) * step_s


def unchanged(record: QueryRecord, why: str) -> QueryRecord:
    """It stays as it is, if it was to become another."""
    return record if record.change is None else replace(record, change=None, refused=f"it stays as it is: {why}")
