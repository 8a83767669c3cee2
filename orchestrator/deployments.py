"""Queries on their way through `LIFE_CYCLE`, and in no other way: what is asked of them, and how far what is seen leads them.

What is asked returns the names of the queries it concerns, which are to be advanced then. A request that cannot be met raises before
anything has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from cep.config import node
from cep.errors import Conflict
from cep.model import query as queries
from cep.plan import physical
from cep.plan.physical import PhysicalPlan
from orchestrator import assignments, moves, observed
from orchestrator.blame import blamed, fingerprint
from orchestrator.catalog import Catalog
from orchestrator.known import Known
from orchestrator.life_cycle import DESIRED, LIFE_CYCLE, STARTABLE, STOPPING, is_over, step
from orchestrator.records import KEEP_S, BucketTable, Now, QueryRecord
from orchestrator.tables import check_table
from orchestrator.written import Written


class Deployments:
    """Changes `known`, and has the same written."""

    def __init__(self, known: Known, catalog: Catalog, written: Written) -> None:
        self.known, self.catalog, self.written = known, catalog, written
        self.epoch = 0
        self.release_at: dict[str, float] = {}  # query that is over -> the steady time at which nobody can read it any more

    # --- what is asked

    def submit(self, plan: PhysicalPlan, start: bool, now: Now) -> list[str]:
        """Raises what `Known.check_new` does, or Conflict: an instance that it reads from is about to move."""
        query = plan.query
        self.known.check_new(query)
        stayed = self._keep_in_place(plan)
        hosts = {worker.im: self.known.managers[worker.im].process for worker in plan.workers}
        if query.name in self.known.blames and self.known.blames[query.name].document != fingerprint(queries.to_json(query)):
            self._forgive(query.name)
        self.epoch += 1
        self.written.put(node("queries"), {"epoch": self.epoch})
        for stream in query.streams:
            if stream.name not in plan.feeds:
                self.catalog.declare_read(stream)
        self.known.queries[query.name] = QueryRecord(query.name, queries.to_json(query), self.epoch, hosts, start)
        self.known.remember_plan(query.name, plan, physical.to_json(plan))
        self._request(query.name, "assign", now)
        return [query.name, *stayed]

    def _keep_in_place(self, plan: PhysicalPlan) -> list[str]:
        """The queries that `plan` reads: a move of one of their instances is given up, or raises Conflict if it is too late for that."""
        moving = [record for feed in plan.feeds.values() if (record := self.known.queries[feed.query]).move is not None]
        late = next((record.move for record in moving if record.move is not None and record.move.redirecting), None)
        if late is not None:
            raise Conflict(f"query {plan.query.name!r} cannot read another just now: {late.described}; deploy it again in a moment")
        why = f"query {plan.query.name!r} begins to read what it puts out"
        self.known.queries |= {record.name: moves.given_up(record, why) for record in moving}
        return [record.name for record in moving]

    def start(self, name: str) -> list[str]:
        """Raises NotFound, or Conflict: it is over or about to be."""
        record = self.known.query(name)
        if record.state not in STARTABLE:
            raise Conflict(f"query {name!r} is {record.state} and cannot start")
        desired = "run" if record.state == "ready" else record.desired
        self.known.queries[name] = replace(record, start=True, desired=desired)
        return [name]

    def stop(self, name: str, signal: str, now: Now) -> list[str]:
        """`signal` is stop or drain; what is over is withdrawn. Raises NotFound, or Conflict: not in this state."""
        record = self.known.query(name)
        if is_over(record.state):
            self._release(name)
        elif signal in LIFE_CYCLE[record.state] or record.state not in STOPPING:
            self._request(name, signal, now)
        return [name]

    def forget(self, name: str, now: Now) -> list[str]:
        """Raises what `stop` does. One that is set aside goes with all that stands there for it; where there is none of that name, what
        the last one is blamed for."""
        if name in self.known.quarantine.queries:
            self.discard(name)
            return []
        if name not in self.known.queries and name in self.known.blames:
            self._forgive(name)
            return []
        self.stop(name, "stop", now)
        self.known.queries[name] = replace(self.known.queries[name], forget=True)
        return [name]

    def blame(self, name: str) -> None:
        """It keeps the deaths of its instance managers that it is blamed for."""
        record = self.known.queries[name]
        known = {im: self.known.deaths.get((im, process)) for im, process in record.hosts.items()}
        its = {
            im: death.how for im, death in known.items() if death is not None and death.blamed is not None and death.blamed.query == name
        }
        deaths = {f"{im}, process {record.hosts[im].pid}, {record.hosts[im].started}": f"{im!r} {how}" for im, how in its.items()}
        found = blamed(self.known.blames.get(name), name, record.document, deaths)
        if found is not None and found != self.known.blames.get(name):
            self.known.blames[name] = found
            self.written.put(node("blames", name), found.to_json())

    def _forgive(self, name: str) -> None:
        del self.known.blames[name]
        self.written.delete(node("blames", name))

    def reroute(self, name: str, head: str, table: tuple[int, ...]) -> list[str]:
        """Raises NotFound, QueryError: this is no table for it, or Conflict: not now."""
        record = self.known.query(name)
        if record.state != "running":
            raise Conflict(f"query {name!r} is {record.state}: buckets move only while it is running")
        if record.move is not None:
            raise Conflict(f"buckets of {head} of query {name!r} cannot move now: {record.move.described}; wait until it is there")
        check_table(self.known.plans[name], head, table)
        present = self.known.table(name, head)
        if self.known.is_moving(record, head):
            raise Conflict(f"buckets of {head} of query {name!r} are moving, to table version {present.version}; wait until they have")
        if table != present.table:
            self.known.tables[name][head] = BucketTable(present.version + 1, table)
        return [name]

    def relocate(self, name: str, subquery: str, index: int, im: str) -> list[str]:
        """Raises NotFound, and what `moves.begun` does."""
        self.known.queries[name] = moves.begun(self.known, self.known.query(name), subquery, index, im)
        return [name]

    def release_due(self, now: Now) -> list[str]:
        """Time has passed: the queries that are to be released or judged."""
        due = [name for name, time in self.release_at.items() if time <= now.steady]
        for name in due:
            self._guarded(name, lambda name=name: self._release(name))
        return sorted({*due, *(record.name for record in self.bereft())})

    def bereft(self) -> Iterator[QueryRecord]:
        """Those that may fail because an instance manager is missing."""
        alive = (record for record in self.known.queries.values() if "failure" in LIFE_CYCLE[record.state])
        return (record for record in alive if observed.missing(self.known, record))

    def restore(self, record: QueryRecord, plan: PhysicalPlan, document: object, now: Now) -> None:
        """One that was written before this orchestrator came."""
        self.known.queries[record.name] = record
        self.known.remember_plan(record.name, plan, document)
        if is_over(record.state) and not record.released:
            self.release_at[record.name] = now.steady + self._keep_s(record)

    # --- where it leads

    def advance(self, name: str, now: Now) -> None:
        """As far as the life cycle leads with what is seen; then writes what differs. One with which that cannot be done is set aside."""
        if name in self.known.queries:
            self._guarded(name, lambda: self._advance(name, now))

    def _guarded(self, name: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # what stands there for it makes no sense, or we do not understand it: the others go on
            self.set_aside(name, error)

    def set_aside(self, name: str, why: object) -> None:
        """What stands there for it stays, and so do its instances; here it is known no more."""
        self.release_at.pop(name, None)
        self.known.drop_query(name)
        self.known.quarantine.set_query_aside(name, node("queries", name), why)

    def discard(self, name: str) -> None:
        """One that is set aside is to vanish, with its instances."""
        for path in self.written.paths(name):
            self.known.quarantine.release(path)
        self.known.quarantine.release(node("queries", name))
        self.known.quarantine.release(node("plans", name))
        del self.known.quarantine.queries[name]
        self.written.erase(name)

    def _advance(self, name: str, now: Now) -> None:
        self.known.note_change(name)
        while (record := self.known.queries[name]) and (target := step(record.state, observed.signals_of(self.known, record, now))):
            self._enter(record, target, now)
        record = self._move_on(record)
        if record.forget and is_over(record.state):
            self._vanish(name)
        else:
            self.written.write(name, dict(assignments.nodes(self.known, record)))
        if record.broken:
            self._tell_readers(record, now)

    def _request(self, name: str, signal: str, now: Now) -> None:
        record = self.known.queries[name]
        target = LIFE_CYCLE[record.state].get(signal)
        if target is None:
            raise Conflict(f"query {name!r} is {record.state}: it cannot {signal} now")
        self._enter(record, target, now)

    def _enter(self, record: QueryRecord, state: str, now: Now) -> None:
        desired = "run" if state == "ready" and record.start else DESIRED.get(state)
        entered = record.entered(state, now, desired)
        if state == "failed":
            entered = replace(entered, cause=observed.failure(self.known, record, now))
        if is_over(state):
            self.known.is_hosted_no_more(record.name)
            readers = tuple((s.stream, s.id) for s in self.known.subscriptions_of(record))
            rows, operators = observed.rows(self.known, record), observed.operators(self.known, record)
            entered = replace(entered, readers=readers, rows=rows, operators=operators)
            self.release_at[record.name] = now.steady + self._keep_s(entered)
        self.known.queries[record.name] = entered

    def _move_on(self, record: QueryRecord) -> QueryRecord:
        """As far as the move of one of its instances has come; when it is there, the plan says so."""
        record = moves.advanced(self.known, record) if self.known.has_looked else record
        if record.move is not None and moves.has_arrived(self.known, record):
            plan = moves.moved_plan(self.known, record)
            self.known.has_moved(plan, physical.to_json(plan), record.move)
            record = replace(record, move=None, hosts={i.im: record.hosts[i.im] for i in plan.instances})
        self.known.queries[record.name] = record
        return record

    def _tell_readers(self, record: QueryRecord, now: Now) -> None:
        """Queries that read its outputs stay as they are, and know why nothing comes (DESIGN 4.13)."""
        for name in self.known.readers_of(record.name):
            reader = self.known.queries[name]
            feeds = self.known.plans[name].feeds
            fed = [stream for stream, feed in feeds.items() if (feed.query, feed.epoch) == (record.name, record.epoch)]
            lost = dict.fromkeys(fed, record.broken) | dict(reader.lost)
            if lost != reader.lost and not is_over(reader.state):
                self.known.queries[name] = replace(reader, lost=lost)
                self.advance(name, now)

    def _keep_s(self, record: QueryRecord) -> float:
        """For how long somebody may still read what the query left."""
        return max((s.keep_s for s in self.known.subscriptions_of(record)), default=KEEP_S)

    def _release(self, name: str) -> None:
        """Withdraws the assignments of a query that is over, and its subscriptions."""
        self.release_at.pop(name, None)
        for subscription in self.known.subscriptions_of(self.known.queries[name]):
            self.catalog.unsubscribe(subscription.stream, subscription.id)
        self.known.queries[name] = replace(self.known.queries[name], released=True)

    def _vanish(self, name: str) -> None:
        self._release(name)
        self.written.erase(name)
        self.known.forget_query(name)
