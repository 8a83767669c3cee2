"""One subquery instance: a small DAG of operators between inputs and outputs.

Rules:

1. It is pulled. `step` works until its slice is over, its input is empty, or an output has no credit; then it stops wherever it is,
   in the middle of the emission of a window if need be, and goes on from there (`_cursor`). It never refuses input. What one row may
   mean is not bounded, so operators yield between bounded pieces of work, also where nothing comes out (`PAUSE`).
2. What a watermark lets out leaves before the watermark does.
3. Outputs are told of every watermark; they decide what is worth a message.
4. After End, Stop or Fail nothing follows, on any output.
5. A Barrier holds back what follows it on its channel until it has come on all of them, and the sources have been told of it
   (`barrier`). Then the state is taken, into `snapshots`, partial results leave, and the Barrier goes on. One with a new table of
   buckets goes on only to those that keep its partitioning, and state goes to other instances (`cep.dataflow.reroute`). One that names
   a move is the last of its channel: the instance itself moves with it, or goes on with the channel from where the sender is now
   (`cep.dataflow.relocation`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from cep.dataflow import quiet
from cep.dataflow.channel import Channel, Inbox, WatermarkMerge, watermark_after
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.meter import Account, Meter
from cep.dataflow.nodes import Input, Node, Walk
from cep.dataflow.operators import Keep, Part
from cep.dataflow.output import Output, concat
from cep.dataflow.reroute import Moving
from cep.dataflow.source import ENOUGH_ROWS, Source
from cep.elements import MAX_TIME, MIN_TIME, Barrier, Batch, Element, End, Fail, Idle, Stop, describe_time
from cep.errors import ProtocolError
from cep.mark import OPERATOR, label_of

#: Handed to neighbours in a slice, about.
TURN_BYTES = 1 << 20
#: How long tuples may be gathered for more while the input is never empty, so that an instance with too much to do still gives out.
LINGER_NS = 10_000_000

#: The state of every stateful operator of an instance, by the operator's name.
Snapshot = dict[str, list[Part]]


def _nobody_asks(_: Inbox | Barrier) -> None:
    """Of an instance that stays where it is, as those it hears from do."""


class SubqueryInstance:
    """`state` is ready → running → ended | stopped | failed | moved; `cause` says why it failed."""

    def __init__(
        self,
        name: str,
        subquery: str,
        index: int,
        nodes: Sequence[Node],
        inputs: Sequence[Input],
        sources: Sequence[tuple[Source, Node]],
        outputs: Sequence[Output],
        dead_letters: DeadLetters,
        meter: Meter | None = None,
    ) -> None:
        self.name, self.subquery, self.index = name, subquery, index
        self.nodes, self.inputs, self.sources, self.outputs = nodes, inputs, list(sources), outputs
        self.dead_letters = dead_letters
        self.meter, self.account = meter or Meter(), Account()  # its own: finding what is to be done next
        self.state, self.cause = "ready", ""
        self.failed_at: tuple[str, int | None] = (subquery, index)  # where the failure was that it knows of
        self.since = MIN_TIME
        self._walk = Walk(self.meter)
        for number, node in enumerate(nodes, 1):
            node.number = number
        self._cursor: Iterator[None] | None = None
        self._turn = 0
        self._finished: set[int] = set()  # sources that have ended
        self.exhausted = False  # the last step ended because there was no more input
        self.enough_rows = ENOUGH_ROWS
        self._gathering_from = 0  # since when tuples are gathered at the outputs, by the meter's clock
        self.snapshots: dict[int, Snapshot] = {}  # by number of the Barrier
        self.pause_at: int | None = None  # the number of a Barrier behind which it takes nothing more
        self._barrier: Barrier | None = None  # one that has come, but not yet on all channels
        self._aligned: set[Inbox] = set()  # on which it has come
        self._quiet = False  # somebody in it is, or was a moment ago, idle
        self._leaving = False  # what is to leave before it moves is on its way
        self.moving: Moving | None = None  # its buckets, where they can move
        self.routes: dict[str, list[Output]] = {}  # subquery that has a table of buckets -> the outputs that lead there
        self.keeping: list[Output] = []  # to subqueries that keep its partitioning
        self.next_inboxes: dict[Inbox, Inbox] = {}  # of senders that move: the present channel -> the one from their new place
        self.arriving = False  # it waits for what it had at its old place
        self.on_followed: Callable[[Inbox], None] = _nobody_asks  # such a channel is over
        self.on_departure: Callable[[Barrier], None] = _nobody_asks  # it has moved: what it has is to be sent after it

    @property
    def watermark(self) -> int:
        """The least watermark of its inputs."""
        promised = [source.watermark for source, _ in self.sources] + [i.merge.combined for i in self.inputs]
        return min(promised, default=MAX_TIME)

    @property
    def notes(self) -> list[str]:
        """What is slow in it, and why."""
        return [f"operator {node.operator.name!r}: {note}" for node in self.nodes for note in getattr(node.operator, "notes", ())]

    @property
    def label(self) -> bytes:
        """What `cep.mark` shows of it."""
        query = self.name.rsplit("/", 2)[0]
        return label_of(query, self.subquery, self.index, [node.operator.name for node in self.nodes])

    @property
    def done(self) -> bool:
        return self.state in ("ended", "stopped", "failed", "moved")

    @property
    def rests(self) -> bool:
        """Does it run, and is nothing under way in it?"""
        moves = self.arriving or self._leaving or self.next_inboxes or self.moving is not None
        under_way = moves or self._cursor is not None or self._barrier is not None or self._aligned or self._finished or self._quiet
        return self.state == "running" and not under_way and not self._blocked()

    def barrier(self, number: int) -> None:
        """Tells its sources of a Barrier, which has its place behind what they have read so far."""
        self._barrier = Barrier(number)

    def leave(self, barrier: Barrier) -> None:
        """It moves, with `barrier`, once its sources have taken everything that is on its way to them."""
        self._barrier = barrier

    @property
    def has_begun_to_leave(self) -> bool:
        """Nothing more may come to it."""
        return self._leaving

    def reroute(self, head: str, barrier: Barrier) -> None:
        """From now on it sends to the instances of `head` by the table of `barrier`, which goes before."""
        for output in self.routes.get(head, ()) if not self.done else ():
            output.reroute(barrier)

    def step(self, deadline: Callable[[], bool]) -> bool:
        """Works until `deadline()`, until neighbours have got `TURN_BYTES`, which they take best while the cache has them, or until
        there is nothing to do. Was anything done?"""
        self.exhausted = False
        worked = self._pump()
        if self.moving is not None and self.moving.pump():
            self.meter.charge(self.account)
            worked = True
        if self.state != "running":
            return worked
        handed = self._handed_bytes()
        if self._quiet and self._cursor is None and not self._blocked():
            self._cursor = self._keep_up()
        while self.state == "running" and not self._blocked():
            if self._cursor is None:
                self._cursor = self._next() or (self._keep_up() if self._quiet else None)
                if self._cursor is None:
                    self._input_is_empty()
                    break
            worked = True
            through = self._resume(deadline)
            if self._blocked():
                break
            if not through or deadline() or self._handed_bytes() - handed >= TURN_BYTES:
                if self.meter.mark - self._gathering_from > LINGER_NS:
                    self._let_out_gathered()
                break
        if worked:
            self._note_stalls()
        return worked

    def number(self) -> bool:
        """From now on what sources read has origins, for a query that reads an output. False: ask again, for tuples without are
        on their way."""
        if self._cursor is None:
            for source, _ in self.sources:
                source.origin = True
        return all(source.origin for source, _ in self.sources)

    def _pump(self) -> bool:
        if not self._blocked():
            return False
        for output in self.outputs:
            output.pump()
            self.meter.charge(output.account)
        self._note_stalls()
        return not self._blocked()

    def _note_stalls(self) -> None:
        for output in self.outputs:
            if output.blocked or output.stall.since is not None:
                output.stall.note(output.blocked, self.meter.mark)

    def _blocked(self) -> bool:
        for output in self.outputs:  # noqa: SIM110  (`any` takes three times as long, and this is asked between two steps)
            if output.blocked:
                return True
        return False

    def _handed_bytes(self) -> int:
        handed = 0
        for output in self.outputs:
            handed += output.handed_bytes
        return handed

    def _resume(self, deadline: Callable[[], bool]) -> bool:
        """Runs the cursor until it is through, an output is blocked or the slice is over. Is it through?"""
        assert self._cursor is not None
        for _ in self._cursor:
            if self._blocked() or deadline():
                return False
        self._cursor = None
        return True

    def _next(self) -> Iterator[None] | None:
        """The work that the next element of some input means."""
        barrier = self._barrier
        for _ in self.sources if barrier is None or (barrier.move is not None and not self._leaving) else ():
            if len(self.sources) > 1:
                self.sources.append(self.sources.pop(0))
            work = self._poll(*self.sources[-1])
            if work is not None:
                return work
        if barrier is not None and self._is_aligned(barrier):
            return self._at_aligned(barrier)
        pending = (
            [(i, inbox) for i in self.inputs for inbox in i.inboxes if inbox.queue and inbox not in self._aligned] if self.inputs else ()
        )
        if not pending:
            return None
        self._turn += 1
        input_, inbox = pending[self._turn % len(pending)]
        element, watermark = self._next_of(inbox)
        self.meter.charge(self.account)
        return self._take(input_, inbox, element, watermark)

    def _next_of(self, inbox: Inbox) -> tuple[Element, int]:
        """The next element and the watermark after it; small batches that wait behind each other are one, for what follows costs as much
        for a batch of few rows as for one of many."""
        element, carried = inbox.take()
        watermark = watermark_after(element, carried)
        if not isinstance(element, Batch) or not inbox.queue:
            return element, watermark
        batches, rows, queue = [element], len(element), inbox.queue
        while queue and isinstance(following := queue[0][0], Batch) and rows + len(following) <= self.enough_rows:
            batches.append(following)
            rows += len(following)
            _, watermark = inbox.take()
        return concat(batches), watermark

    # Sources

    def _poll(self, source: Source, node: Node) -> Iterator[None] | None:
        if id(source) in self._finished:
            return None
        before = source.watermark
        self.meter.words[OPERATOR] = node.number
        batch = None if source.ended else source.poll()
        self._quiet |= source.idle
        if batch is None and source.watermark == before and not source.ended:
            return None
        if batch is None:  # otherwise its node is what the time is charged to next
            self.meter.charge(node.account)
        return self._polled(source, node, batch)

    def _polled(self, source: Source, node: Node, batch: Batch | None) -> Iterator[None]:
        if source.since > self.since:
            self.learn_since(source.since)
        if source.late.batches:
            for late in source.late.take():
                for output in node.late:
                    self._walk.add(output, late)
                yield
        if batch is not None and len(batch.time):
            yield from self._walk.push(node, None, batch)
        if source.ended:
            self._finished.add(id(source))
            yield from self._end(node, None)
        else:
            yield from self._walk.advance(node, None, source.watermark)
            if getattr(source, "between_blocks", False):
                self._flush()

    def _keep_up(self) -> Iterator[None] | None:
        """Says who is idle, and asks them to come as far as others have (`cep.dataflow.quiet`); what a source promises then."""
        if self._leaving:
            return None  # its last word is said
        self._quiet = quiet.mark(self.nodes, self.inputs, self.sources)
        for source, node in self.sources:
            if source.idle and source.follow(quiet.wanted_of(node)):
                return self._polled(source, node, None)
        quiet.tell(self.nodes)
        quiet.ask(self.inputs)
        return None

    # Elements

    def _take(self, input_: Input, inbox: Inbox, element: Element, watermark: int) -> Iterator[None]:
        self.learn_since(inbox.since)
        match element:
            case Batch():
                yield from self._walk.push(input_.node, input_.port, element)
            case Fail(subquery, instance, cause):
                self.close(Fail(subquery, instance, cause), "failed", cause)
                return
            case Stop():
                self.close(Stop(), "stopped")
                return
            case Idle():
                self._quiet = True
                if input_.merge.sleep(inbox.name, watermark):
                    yield from self._walk.advance(input_.node, input_.port, input_.merge.combined)
                return
            case Barrier() if self._is_of_sender(element):
                yield from self._follow(input_, inbox, watermark)
                return
            case Barrier():
                self._hold_back(inbox, element)
            case End():
                inbox.ended = True
                input_.open -= 1
        if not input_.open:
            yield from self._end(input_.node, input_.port)
        elif input_.merge.update(inbox.name, watermark):
            yield from self._walk.advance(input_.node, input_.port, input_.merge.combined)

    # Barriers

    def _is_aligned(self, barrier: Barrier) -> bool:
        come = all(inbox.ended or inbox in self._aligned for input_ in self.inputs for inbox in input_.inboxes)
        return come and (barrier.move is None or all(source.left for source, _ in self.sources))

    def _hold_back(self, inbox: Inbox, barrier: Barrier) -> None:
        """What follows the Barrier waits until it has come on all channels."""
        if self._barrier is not None and self._barrier != barrier:
            raise ProtocolError(
                f"channel {inbox.name!r}: Barrier {barrier.number} came while Barrier {self._barrier.number} is under way; "
                "checkpoints and moves of buckets follow each other"
            )
        self._barrier = barrier
        self._aligned.add(inbox)
        if barrier.table is not None and self.moving is not None:
            self.moving.begin()

    def _at_aligned(self, barrier: Barrier) -> Iterator[None] | None:
        if barrier.move is not None:
            return self._depart_for(barrier)
        return self._at_barrier(barrier) if barrier.table is None else self._between_tables(barrier)

    def _at_barrier(self, barrier: Barrier) -> Iterator[None]:
        yield from self._let_out_partials()
        self.snapshots[barrier.number] = {node.operator.name: node.stateful.snapshot() for node in self.nodes if node.stateful is not None}
        self._go_on()
        for output in self.outputs:
            output.barrier(barrier.number)
        if barrier.number == self.pause_at:
            self.state = "ready"

    def _let_out_partials(self) -> Iterator[None]:
        for node in self.nodes:
            if node.stateful is not None:
                yield from self._walk.emit_all(node, node.stateful.on_barrier())

    def _go_on(self) -> None:
        self._barrier = None
        self._aligned.clear()

    def _between_tables(self, barrier: Barrier) -> Iterator[None] | None:
        """The Barrier has come on all channels; None while state is still on its way."""
        assert self.moving is not None, "a reroute Barrier goes only to subqueries whose buckets can move"
        if self.moving.under_way is None:
            return self._depart(self.moving, barrier)
        if self.moving.waits_for:
            return None
        self.moving.arrive()
        self.meter.charge(self.account)
        self._go_on()
        return iter(())

    def _depart(self, moving: Moving, barrier: Barrier) -> Iterator[None]:
        yield from self._let_out_partials()
        for output in self.keeping:
            output.reroute(barrier)
        moving.depart(barrier)
        moving.pump()
        self.meter.charge(self.account)

    def redirect(self, barrier: Barrier, new: Mapping[Channel, Channel]) -> None:
        """The instance at the other end of these channels moves: behind the Barrier it is sent to on the new ones."""
        for output in self.outputs if not self.done else ():
            output.redirect(barrier, new)

    def _is_of_sender(self, barrier: Barrier) -> bool:
        move = barrier.move
        return move is not None and (move.subquery, move.index) != (self.subquery, self.index)

    def _follow(self, input_: Input, inbox: Inbox, watermark: int) -> Iterator[None]:
        """The sender goes on at its new place, on another channel."""
        if inbox not in self.next_inboxes:
            raise ProtocolError(f"channel {inbox.name!r}: its sender has moved, and the channel from its new place is not open")
        input_.merge.update(inbox.name, watermark)
        input_.follow(inbox, self.next_inboxes.pop(inbox))
        self.on_followed(inbox)
        yield from self._catch_up([input_])

    def _depart_for(self, barrier: Barrier) -> Iterator[None] | None:
        """The Barrier has come on all channels, so nothing more comes here; None once all that was to leave has left."""
        if not self._leaving:
            self._leaving = True
            return self._leave(barrier)
        self.on_departure(barrier)
        self.state = "moved"
        return None

    def _leave(self, barrier: Barrier) -> Iterator[None]:
        yield from self._let_out_partials()
        for output in self.outputs:
            output.depart(barrier)
            self.meter.charge(output.account)

    def resume(self) -> None:
        """At its new place, with everything it had at its old one."""
        self.state, self.arriving, self._quiet = "running", False, True
        self._cursor = self._catch_up_all()

    def _catch_up_all(self) -> Iterator[None]:
        for source, node in self.sources:
            if source.ended:
                self._finished.add(id(source))
                yield from self._end(node, None)
            elif source.watermark > MIN_TIME:
                yield from self._walk.advance(node, None, source.watermark)
        yield from self._catch_up(self.inputs)

    def _catch_up(self, inputs: Sequence[Input]) -> Iterator[None]:
        """Comes as far as these inputs have promised."""
        for input_ in inputs:
            if not input_.open:
                yield from self._end(input_.node, input_.port)
            elif input_.merge.combined > MIN_TIME:
                yield from self._walk.advance(input_.node, input_.port, input_.merge.combined)

    def restore(self, snapshots: Sequence[Snapshot], keep: Callable[[str], Keep]) -> None:
        """Takes of what all instances of this subquery had what is this one's: by operator, the rows that `keep` names."""
        for node in self.nodes:
            if node.stateful is not None:
                parts = [part for snapshot in snapshots for part in snapshot.get(node.operator.name, ())]
                node.stateful.restore(parts, keep(node.operator.name))

    def _end(self, node: Node, port: object) -> Iterator[None]:
        """An input is exhausted: a watermark of +inf; when every node has it, the instance ends."""
        yield from self._walk.advance(node, port, MAX_TIME)
        if all(n.merge.combined == MAX_TIME for n in self.nodes):
            self.close(End(), "ended")

    def close(self, element: End | Stop | Fail, state: str, cause: str = "") -> None:
        """The last element goes to every output."""
        if self.done:
            return
        self.state, self.cause, self._cursor = state, cause, None
        if isinstance(element, Fail):
            self.failed_at = element.subquery, element.instance
        for source, _ in self.sources:
            source.release()
        for output in self.outputs:
            output.close(element)

    def fail(self, cause: str) -> None:
        self.close(Fail(self.subquery, self.index, cause), "failed", cause)

    def withdraw(self) -> None:
        """It is not at home any more: what it was at lets go of it, and nobody is told of it."""
        self._cursor = None
        self.on_departure = self.on_followed = _nobody_asks

    def drain(self) -> None:
        """`stop --drain`: the source ends where it is."""
        for source, _ in self.sources:
            source.ended, source.watermark, source.idle = True, MAX_TIME, False

    def _input_is_empty(self) -> None:
        """Nothing more to gather for: what was gathered goes (adaptive batching)."""
        self.exhausted = True
        self._let_out_gathered()

    def _let_out_gathered(self) -> None:
        self._gathering_from = self.meter.mark
        for output in self.outputs:
            if output.holds:
                output.flush_rows()
                self.meter.charge(output.account)

    def _flush(self) -> None:
        for output in self.outputs:
            output.flush()
            self.meter.charge(output.account)

    def tick(self) -> None:
        """Every 100 ms: watermarks that nobody was waiting for go too."""
        if self.state == "running":
            self._flush()

    def learn_since(self, since: int) -> None:
        """Rows before it are not this query's (DESIGN 5.9)."""
        if since <= self.since:
            return
        self.since = since
        for output in self.outputs:
            output.since = since
        for node in self.nodes:
            if node.stateful is not None:
                node.stateful.since = since

    def waits_for(self, now_us: int) -> str:
        """Why nothing comes out, in one line. `now_us`: the clock."""
        blocked = [output.name for output in self.outputs if output.blocked]
        if self.done or blocked:
            return f"credit on {', '.join(blocked)}" if blocked else f"nothing: it has {self.state}"
        if self.arriving:
            return "the state that it had at its old place"
        if self.moving is not None and self.moving.waits_for:
            return f"state of buckets that move, to or from instances {', '.join(map(str, self.moving.waits_for))}"
        waiting = [(source.watermark, source.waits_for(now_us)) for source, _ in self.sources]
        waiting += [(i.merge.combined, _described(i.merge)) for i in self.inputs]
        watermark, slowest = min(waiting, default=(MAX_TIME, "nothing"))
        ends = [node.stateful.next_end for node in self.nodes if node.stateful is not None]
        end = min((end for end in ends if end is not None), default=None)
        if end is not None:
            return f"watermark {describe_time(end)}, which ends a window; now {describe_time(watermark)}; slowest: {slowest}"
        return slowest if watermark == MIN_TIME else f"{slowest}, at watermark {describe_time(watermark)}"


def _described(merge: WatermarkMerge) -> str:
    """The channel that others wait for."""
    slowest = merge.slowest()
    return f"channel {slowest}{', which is idle' if slowest in merge.idle else ''}"
