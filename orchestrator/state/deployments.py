"""Queries on their way through `LIFE_CYCLE`, and in no other way: what is asked of them, and how far what is seen leads them.

What is asked returns the names of the queries it concerns, which are to be advanced then. A request that cannot be met raises before
anything has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from cep.config import node
from cep.errors import CepError, Conflict
from cep.model import query as queries
from cep.plan import physical
from cep.plan.checkpoints import recovers, tells_at_once
from cep.plan.moving import planned_table, with_table
from cep.plan.physical import PhysicalPlan
from cep.plan.scaling import scaled
from cep.plan.upgrading import upgraded
from orchestrator.deadlines import Deadlines
from orchestrator.records import KEEP_S, BucketTable, Now, PendingChange, QueryRecord, death_key
from orchestrator.state import assignments, evacuations, moves, query_status, recovery
from orchestrator.state.blame import blamed, fingerprint
from orchestrator.state.catalog import Catalog
from orchestrator.state.checkpoints import Checkpoints, unchanged
from orchestrator.state.cluster_model import ClusterModel
from orchestrator.state.desired_nodes import DesiredNodes, encode
from orchestrator.state.life_cycle import DESIRED, LIFE_CYCLE, STARTABLE, STOPPING, is_over, step
from orchestrator.state.losses import missing
from orchestrator.state.tables import check_table

LOOK_S = 10.0


class Deployments:
    """Changes `model`, and what should be true in ZooKeeper with it."""

    def __init__(self, model: ClusterModel, catalog: Catalog, desired: DesiredNodes, checkpoints: Checkpoints) -> None:
        self.model, self.catalog, self.desired, self.checkpoints = model, catalog, desired, checkpoints
        self.release_at = Deadlines()  # of queries that are over: then they cannot be read any more
        self.lease_until = Deadlines()  # of queries that have a lease: then that ends
        self._look_at = 0.0  # when it is to be looked again whether one that has lost an instance manager can go on
        self.judged = 0.0  # the last of `ClusterModel.judge_from` of which the time has come

    # --- what is asked

    def submit(self, plan: PhysicalPlan, start: bool, now: Now, owner: str = "", lease_s: float = 0.0) -> list[str]:
        """Raises what `ClusterModel.check_new` does, or Conflict: an instance that it reads from is about to move."""
        query = plan.written
        self.model.check_new(query, owner)
        stayed = self._keep_in_place(plan)
        hosts = {worker.im: self.model.managers[worker.im].process for worker in plan.workers}
        if query.name in self.model.blames and self.model.blames[query.name].document != fingerprint(queries.to_json(query)):
            self._forgive(query.name)
        self.model.epoch += 1
        self.desired.put(node("queries"), {"epoch": self.model.epoch})
        for stream in query.streams:
            if stream.name not in plan.feeds:
                self.catalog.declare_read(stream)
        record = QueryRecord(query.name, queries.to_json(query), self.model.epoch, hosts, start, owner=owner, lease_s=lease_s)
        self.model.queries[query.name] = record
        self._begin_lease(record, now)
        self.model.remember_plan(query.name, plan, physical.to_json(plan))
        self.checkpoints.deployed(query.name)
        self._request(query.name, "assign", now)
        return [query.name, *stayed]

    def _keep_in_place(self, plan: PhysicalPlan) -> list[str]:
        """The queries that `plan` reads: a move of one of their instances is given up, or raises Conflict if it is too late for that."""
        moving = [record for feed in plan.feeds.values() if (record := self.model.queries[feed.query]).move is not None]
        late = next((record.move for record in moving if record.move is not None and record.move.redirecting), None)
        if late is not None:
            raise Conflict(f"query {plan.query.name!r} cannot read another just now: {late.described}; deploy it again in a moment")
        why = f"query {plan.query.name!r} begins to read what it puts out"
        self.model.queries |= {record.name: moves.given_up(record, why) for record in moving}
        return [record.name for record in moving]

    def start(self, name: str) -> list[str]:
        """Raises NotFound, or Conflict: it is over or about to be."""
        record = self.model.query(name)
        if record.state not in STARTABLE:
            raise Conflict(f"query {name!r} is {record.state} and cannot start")
        desired = "run" if record.state == "ready" else record.desired
        self.model.queries[name] = replace(record, start=True, desired=desired)
        return [name]

    def stop(self, name: str, signal: str, now: Now) -> list[str]:
        """`signal` is stop or drain; what is over is withdrawn. Raises NotFound, or Conflict: not in this state."""
        record = self.model.query(name)
        if is_over(record.state):
            self._release(name)
        elif signal in LIFE_CYCLE[record.state] or record.state not in STOPPING:
            self._request(name, signal, now)
        return [name]

    def forget(self, name: str, now: Now) -> list[str]:
        """Raises what `stop` does. One that is set aside goes with all that stands there for it; where there is none of that name, what
        the last one is blamed for."""
        if name in self.model.quarantine.queries:
            self.discard(name)
            return []
        if name not in self.model.queries and name in self.model.blames:
            self._forgive(name)
            return []
        self.stop(name, "stop", now)
        self.model.queries[name] = replace(self.model.queries[name], forget=True)
        return [name]

    def blame(self, name: str) -> None:
        """It keeps the deaths of its instance managers that it is blamed for."""
        record = self.model.queries[name]
        hosts = set(record.hosts.items())
        everywhere = recovers(self.model.plans[name])  # since it died there, its instances have gone elsewhere
        its = {
            (im, process): death.how
            for (im, process), death in self.model.deaths.items()
            if death.blamed is not None and death.blamed.query == name and (everywhere or (im, process) in hosts)
        }
        deaths = {death_key(im, process): f"{im!r} {how}" for (im, process), how in its.items()}
        found = blamed(self.model.blames.get(name), name, record.document, deaths)
        if found is not None and found != self.model.blames.get(name):
            self.model.blames[name] = found
            self.desired.put(node("blames", name), found.to_json())

    def _forgive(self, name: str) -> None:
        del self.model.blames[name]
        self.desired.delete(node("blames", name))

    def reroute(self, name: str, head: str, table: tuple[int, ...], unasked: bool) -> list[str]:
        """Raises NotFound, QueryError: this is no table for it, or Conflict: not now."""
        record = self.model.query(name)
        if record.state != "running":
            raise Conflict(f"query {name!r} is {record.state}: buckets move only while it is running")
        if record.move is not None:
            raise Conflict(f"buckets of {head} of query {name!r} cannot move now: {record.move.described}; wait until it is there")
        check_table(self.model.plans[name], head, table)
        if recovers(self.model.plans[name]):
            return self._deal_anew(record, head, table, unasked)
        present = self.model.table(name, head)
        if self.model.is_moving(record, head):
            raise Conflict(f"buckets of {head} of query {name!r} are moving, to table version {present.version}; wait until they have")
        if table != present.table:
            tables = self.model.tables[name] | {head: BucketTable(present.version + 1, table)}
            encode(*assignments.tables_node(name, tables))
            self.model.tables[name] = tables
        return [name]

    def _deal_anew(self, record: QueryRecord, head: str, table: tuple[int, ...], unasked: bool) -> list[str]:
        """The next attempt of a query that recovers has that table, behind a commit."""
        record = record if unasked else _without_unasked(record)
        self._check_free(record, "rebalanced")
        _check_plan(with_table(self.model.plans[record.name], head, table))  # too large is said now
        if table == planned_table(self.model.plans[record.name], head):
            self.model.queries[record.name] = replace(record, refused="")
        else:
            self._await_commit(record, PendingChange(self.model.checkpoints[record.name].asked, head, table=table, unasked=unasked))
        return [record.name]

    def relocate(self, name: str, subquery: str, index: int, im: str, unasked: bool, now: Now) -> list[str]:
        """Raises NotFound, and what `moves.begun` does. A query that recovers goes on from its last checkpoint, with the instance there; if
        it is `unasked`, from one that is taken for it."""
        record = self.model.query(name)
        if not recovers(self.model.plans[name]):
            self.model.queries[name] = moves.begun(self.model, record, subquery, index, im)
            return [name]
        self._check_move(record, subquery, index, im)
        if unasked:
            self._check_free(record, "changed")
            self._await_commit(record, PendingChange(self.model.checkpoints[name].asked, subquery, index=index, im=im, unasked=True))
        else:
            record = _without_unasked(record)
            self._enter(replace(record, moves=record.moves + 1, refused=""), "recovering", now, {(subquery, index): im})
        return [name]

    def _check_move(self, record: QueryRecord, subquery: str, index: int, im: str) -> None:
        """Of a query that recovers. Raises QueryError, or Conflict: not now."""
        moves.checked(self.model, record, subquery, index, im)
        if im not in recovery.refuges(self.model):
            raise Conflict(
                f"{subquery}/{index} of query {record.name!r} cannot move to {im!r} now: its process is gone; another one may come"
            )

    def scale(self, name: str, subquery: str, instances: int) -> list[str]:
        """As soon as a checkpoint is committed. Raises NotFound, QueryError: it cannot have so many, or Conflict: not now."""
        record = _without_unasked(self.model.query(name))
        _check_plan(scaled(self.model.plans[name], subquery, instances))
        self._check_free(record, "scaled")
        if instances == self.model.plans[name].subquery(subquery).parallelism:
            raise Conflict(f"{subquery} of query {name!r} has {instances} instances already")
        self._await_commit(record, PendingChange(self.model.checkpoints[name].asked, subquery, instances))
        return [name]

    def upgrade(self, plan: PhysicalPlan, fresh: bool) -> list[str]:
        """As soon as a checkpoint is committed; `plan` is what `cep.plan.upgrading` makes of its own, `fresh` or not. Raises NotFound, or
        Conflict: not now."""
        name, document = plan.query.name, queries.to_json(plan.written)
        record = _without_unasked(self.model.query(name))
        self._check_free(record, "upgraded")
        if document == record.document:
            raise Conflict(f"query {name!r} is that query already")
        behind, pauses = self.model.checkpoints[name].asked, tells_at_once(self.model.plans[name])
        self._await_commit(record, PendingChange(behind, document=document, pauses=pauses, fresh=fresh))
        return [name]

    def _await_commit(self, record: QueryRecord, change: PendingChange) -> None:
        """Raises TooLarge, or Conflict: it would be too long with that."""
        changed = replace(record, change=change, moves=record.moves + 1, refused="")
        self.model.check_size(changed, self.model.outputs_of(record.name))
        self.model.queries[record.name] = changed

    def _become(self, record: QueryRecord, now: Now) -> None:
        """What it was to become, if it can now; what it is may be another than when that was asked for."""
        change = record.change
        assert change is not None
        places = {(change.subquery, change.index): change.im} if change.im else None
        try:
            going_on, plan = self._changed(record, change)
        except CepError as error:
            self.model.queries[record.name] = unchanged(record, str(error))
        else:
            self._enter(replace(going_on, change=None), "recovering", now, places, plan)

    def _changed(self, record: QueryRecord, change: PendingChange) -> tuple[QueryRecord, PhysicalPlan | None]:
        """The plan: None where it stays, and its instances go elsewhere."""
        there = self.model.plans[record.name]
        if change.im:
            self._check_move(record, change.subquery, change.index, change.im)
            return record, None
        if change.table:
            check_table(there, change.subquery, change.table)
            return record, _check_plan(with_table(there, change.subquery, change.table))
        if change.document is None:
            return record, _check_plan(scaled(there, change.subquery, change.instances))
        found = upgraded(there, queries.from_json(change.document), change.fresh)
        if found.plan is None:
            raise Conflict("; ".join(map(str, found.refused)))
        _check_plan(found.plan)
        if record.name in self.model.blames:  # for what another query did
            self._forgive(record.name)
        return replace(record, document=queries.to_json(found.plan.written), strikes=0, suspect=()), found.plan

    def _check_free(self, record: QueryRecord, what: str) -> None:
        """Raises Conflict: it cannot begin another attempt just now."""
        if record.state != "running":
            raise Conflict(f"query {record.name!r} is {record.state}: it is {what} only while it is running")
        if record.change is not None:
            raise Conflict(f"query {record.name!r} cannot be {what} now: it is being changed; wait until it is")
        if not recovery.refuges(self.model):
            raise Conflict(f"query {record.name!r} cannot be {what} now: no instance manager is there; one may come")

    def release_due(self, now: Now) -> list[str]:
        """Time has passed: the queries that are to be released or judged."""
        due = list[str]()
        if self.judged < self.model.judge_from <= now.steady or now.steady >= self._look_at:
            due += [record.name for record in self.bereft()]
            self._look_at = now.steady + LOOK_S
            self.judged = self.model.judge_from if now.steady >= self.model.judge_from else self.judged
        for name in (released := self.release_at.take(now.steady)):
            self._guarded(name, partial(self._release, name))
        return due + released

    def bereft(self) -> Iterator[QueryRecord]:
        """Those that may fail because an instance manager is missing."""
        alive = (record for record in self.model.queries.values() if "failure" in LIFE_CYCLE[record.state])
        return (record for record in alive if missing(self.model, record))

    def renew(self, name: str, now: Now) -> None:
        """It was asked for. Raises NotFound, or Conflict: it has no lease, and stays anyway."""
        record = self.model.query(name)
        if not record.lease_s:
            raise Conflict(f"query {name!r} is no preview")
        self._begin_lease(record, now)

    def _begin_lease(self, record: QueryRecord, now: Now) -> None:
        if record.lease_s:
            self.lease_until.put(record.name, now.steady + record.lease_s)

    def lease_due(self, now: Now) -> list[str]:
        """Those that were not asked for any more, which are to be forgotten; one that cannot be now is looked at again a lease later."""
        due = self.lease_until.take(now.steady)
        for name in due:
            self._guarded(name, partial(self._end_lease, name, now))
        return due

    def _end_lease(self, name: str, now: Now) -> None:
        if name in self.model.queries and not self.model.queries[name].forget:
            with suppress(Conflict):
                self.forget(name, now)
            self._begin_lease(self.model.queries[name], now)

    def restore(self, record: QueryRecord, plan: PhysicalPlan, document: object, now: Now) -> None:
        """One that was written before this orchestrator came."""
        self.model.queries[record.name] = record
        self.model.remember_plan(record.name, plan, document)
        self._begin_lease(record, now)
        if is_over(record.state) and not record.released:
            self.release_at.put(record.name, now.steady + self._keep_s(record))

    # --- where it leads

    def advance(self, name: str, now: Now) -> None:
        """As far as the life cycle leads with what is seen; then writes what differs. One with which that cannot be done is set aside."""
        if name in self.model.queries:
            self._guarded(name, lambda: self._advance(name, now))

    def _guarded(self, name: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # what stands there for it makes no sense, or we do not understand it: the others go on
            self.set_aside(name, error)

    def set_aside(self, name: str, why: object) -> None:
        """What stands there for it stays, and so do its instances; here it is known no more."""
        self.release_at.drop(name)
        self.lease_until.drop(name)
        self.checkpoints.forget(name)
        self.model.drop_query(name)
        self.model.quarantine.set_query_aside(name, node("queries", name), why)

    def discard(self, name: str) -> None:
        """One that is set aside is to vanish, with its instances."""
        for path in self.desired.paths(name):
            self.model.quarantine.release(path)
        self.model.quarantine.release(node("queries", name))
        self.model.quarantine.release(node("plans", name))
        del self.model.quarantine.queries[name]
        self.desired.erase(name)

    def _advance(self, name: str, now: Now) -> None:
        if self.checkpoints.may_change(self.model.queries[name]):
            self._become(self.model.queries[name], now)
        while (record := self.model.queries[name]) and (target := step(record.state, query_status.signals_of(self.model, record, now))):
            self._enter(record, target, now)
        record = self._move_on(record)
        record = self.model.queries[name] = self.checkpoints.advance(record, now)
        self.model.note_change(name)
        if record.forget and is_over(record.state):
            self._vanish(name)
        else:
            self._write(record)
        if record.broken:
            self._tell_readers(record, now)
        elif record.attempt:
            self._lead_readers(record)

    def _request(self, name: str, signal: str, now: Now) -> None:
        record = self.model.queries[name]
        target = LIFE_CYCLE[record.state].get(signal)
        if target is None:
            raise Conflict(f"query {name!r} is {record.state}: it cannot {signal} now")
        self._enter(record, target, now)

    def _enter(
        self,
        record: QueryRecord,
        state: str,
        now: Now,
        places: Mapping[tuple[str, int], str] | None = None,
        plan: PhysicalPlan | None = None,
    ) -> None:
        """`places`: where instances are to be in the next attempt. `plan`: which it has, if another one."""
        if state == "recovering":
            going_on, placed = recovery.next_attempt(self.model, record, now, places, plan)
            self.model.is_placed_anew(placed, physical.to_json(placed))
            record = going_on
        if is_over(state) or state in STOPPING:
            record = unchanged(record, f"it is {state}")
        desired = "run" if state == "ready" and record.start else DESIRED.get(state)
        entered = record.entered(state, now, desired)
        if state == "failed":
            entered = replace(entered, cause=query_status.failure_of(self.model, record, now))
        if is_over(state):
            self.model.is_hosted_no_more(record.name)
            readers = tuple((s.stream, s.id) for s in self.model.subscriptions_of(record))
            rows, operators = query_status.rows_out(self.model, record), query_status.operators(self.model, record)
            unused = query_status.unused(self.model, record)
            entered = replace(entered, readers=readers, rows=rows, operators=operators, unused=unused)
            self.release_at.put(record.name, now.steady + self._keep_s(entered))
        self.model.queries[record.name] = entered

    def _move_on(self, record: QueryRecord) -> QueryRecord:
        """As far as the move of one of its instances has come; when it is there, the plan says so, and the next that has to leave goes."""
        record = moves.advanced(self.model, record) if self.model.has_looked else record
        if record.move is not None and moves.has_arrived(self.model, record):
            plan = moves.moved_plan(self.model, record)
            self.model.has_moved(plan, physical.to_json(plan), record.move)
            record = replace(record, move=None, hosts={i.im: record.hosts[i.im] for i in plan.instances})
        record = evacuations.onward(self.model, record)
        self.model.queries[record.name] = record
        return record

    def _tell_readers(self, record: QueryRecord, now: Now) -> None:
        """Queries that read its outputs stay as they are, and know why nothing comes (rule 4.13)."""
        for name in self.model.readers_of(record.name):
            reader = self.model.queries[name]
            feeds = self.model.plans[name].feeds
            fed = [stream for stream, feed in feeds.items() if (feed.query, feed.epoch) == (record.name, record.epoch)]
            lost = dict.fromkeys(fed, record.broken) | dict(reader.lost)
            if lost != reader.lost and not is_over(reader.state):
                self.model.queries[name] = replace(reader, lost=lost)
                self.advance(name, now)

    def _lead_readers(self, record: QueryRecord) -> None:
        """Queries that read its outputs go on with its next attempt."""
        for name in self.model.readers_of(record.name):
            self._write(self.model.queries[name])

    def _write(self, record: QueryRecord) -> None:
        """What should stand in ZooKeeper for it."""
        nodes = dict(assignments.nodes(self.model, record))
        self.desired.write(record.name, nodes, record.relieves and record.state == "recovering")

    def _keep_s(self, record: QueryRecord) -> float:
        """For how long what the query left may still be read."""
        return max((s.keep_s for s in self.model.subscriptions_of(record)), default=KEEP_S)

    def _release(self, name: str) -> None:
        """Withdraws the assignments of a query that is over, and its subscriptions."""
        self.release_at.drop(name)
        for subscription in self.model.subscriptions_of(self.model.queries[name]):
            self.catalog.unsubscribe(subscription.stream, subscription.id)
        self.model.queries[name] = replace(self.model.queries[name], released=True)

    def _vanish(self, name: str) -> None:
        self.lease_until.drop(name)
        self._release(name)
        self.checkpoints.forget(name)
        self.desired.erase(name)
        self.model.forget_query(name)


def _check_plan(plan: PhysicalPlan) -> PhysicalPlan:
    """Raises TooLarge."""
    encode(node("plans", plan.query.name), physical.to_json(plan))
    return plan


def _without_unasked(record: QueryRecord) -> QueryRecord:
    """What the balancing wants gives way to what a user asks for."""
    return replace(record, change=None) if record.change is not None and record.change.unasked else record
