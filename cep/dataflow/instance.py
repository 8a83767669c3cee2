"""One subquery instance: a small DAG of operators between inputs and outputs.

It takes what is next (`cep.dataflow.intake`), pushes it through its nodes (`cep.dataflow.nodes`), and emits what comes out
(`cep.dataflow.outputs.outputs`). What is reported of it says `cep.dataflow.reports`.

Rules:

1. It is pulled. `step` works until its slice is over, its input is empty, or an output has no credit; then it stops wherever it is,
   in the middle of the emission of a window if need be, and goes on from there (`_cursor`). It never refuses input. What one row may
   mean is not bounded, so operators yield between bounded pieces of work, also where nothing comes out (`PAUSE`).
2. What a watermark lets out leaves before the watermark does.
3. Outputs are told of every watermark; they decide what is worth a message.
4. After End, Stop or Fail nothing follows, on any output.
5. A Barrier holds back what follows it on its channel, and a handler works once it has come on all: `cep.dataflow.movement.alignment`.
   Here only one question is asked, whether a channel is held. A Switch is no Barrier: the channel goes on as another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cep.dataflow import metering
from cep.dataflow.channel import Inbox
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.intake import Intake
from cep.dataflow.life import OVER, Life
from cep.dataflow.meter import Account, Meter
from cep.dataflow.movement.alignment import Alignment
from cep.dataflow.nodes import Input, Node, Walk
from cep.dataflow.outputs.output import EdgeOutput
from cep.dataflow.outputs.outputs import Outputs
from cep.dataflow.sources.quiet import Quiet
from cep.dataflow.sources.source import Source
from cep.elements import MAX_TIME, MIN_TIME, Barrier, Batch, Element, End, Fail, Idle, Stop, Switch

#: Handed to neighbours in a slice, about.
TURN_BYTES = 1 << 20
#: What happens to an instance that gives out this last element.
_CLOSING: dict[type, str] = {End: "end", Stop: "stop", Fail: "fail"}


class SubqueryInstance:
    """Operators between inputs and outputs, and how far they are."""

    def __init__(
        self,
        query: str,
        subquery: str,
        index: int,
        nodes: Sequence[Node],
        inputs: Sequence[Input],
        sources: Sequence[tuple[Source, Node]],
        outputs: Sequence[EdgeOutput],
        dead_letters: DeadLetters,
        meter: Meter | None = None,
        arriving: bool = False,
    ) -> None:
        self.query, self.subquery, self.index = query, subquery, index
        self.name = f"{query}/{subquery}/{index}"
        self.meter, self.account = meter or Meter(), Account()  # its own: finding what is to be done next
        emitting = metering.emitting(self.meter)
        self.nodes, self.inputs, self.sources = nodes, inputs, list(sources)
        self.outputs = Outputs(outputs, emitting, self.meter)
        self.dead_letters = dead_letters
        self.life = Life("arriving" if arriving else "ready")
        self.failed_at: tuple[str, int | None] = (subquery, index)  # where the failure was that it knows of
        self.since = MIN_TIME
        self.quiet = Quiet(nodes, inputs, self.sources)
        self.intake = Intake(inputs, self.sources, self.quiet, metering.taking(self.meter, self.account))
        self.walk = Walk(emitting)
        for number, node in enumerate(nodes, 1):
            node.number = number
            metering.measure(node, self.meter)
        self.alignment = Alignment(inputs, [source for source, _ in sources])
        self.beside: list[Callable[[], bool]] = []  # what else is to be done at each step; was there anything?
        self.switched: list[Inbox] = []  # channels that are over, for others took their places
        self.restored = False  # it has what an earlier one had, and is to go on from there
        self.exhausted = False  # the last step ended because there was no more input
        self._cursor: Iterator[None] | None = None

    @property
    def state(self) -> str:
        """As in `cep.dataflow.life`."""
        return self.life.state

    @property
    def cause(self) -> str:
        """Why it failed."""
        return self.life.cause

    @property
    def done(self) -> bool:
        return self.life.state in OVER

    @property
    def rests(self) -> bool:
        """Does it run, and is nothing under way in it?"""
        under_way = self._cursor is not None or self.intake.finished or self.quiet.there
        return self.state == "running" and not under_way and not self.outputs.blocked()

    def step(self, deadline: Callable[[], bool]) -> bool:
        """Works until `deadline()`, until neighbours have got `TURN_BYTES`, which they take best while the cache has them, or until
        there is nothing to do. Was anything done?"""
        outputs, life, self.exhausted = self.outputs, self.life, False
        worked = outputs.blocked() and outputs.pump()
        for pump in self.beside:
            worked |= pump()
        if life.state != "running":
            return worked
        handed = outputs.handed_bytes()
        if self.quiet.there and self._cursor is None and not outputs.blocked():
            self._cursor = self._keep_up()
        while life.state == "running" and not outputs.blocked():
            if self._cursor is None:
                self._cursor = self._next() or (self._keep_up() if self.quiet.there else None)
                if self._cursor is None:  # nothing more to gather for
                    self.exhausted = True
                    outputs.flush_rows()
                    break
            worked = True
            through = self._resume(deadline)
            if outputs.blocked():
                break
            if not through or deadline() or outputs.handed_bytes() - handed >= TURN_BYTES:
                outputs.flush_lingering()
                break
        if worked:
            outputs.note_stalls()
        return worked

    def _resume(self, deadline: Callable[[], bool]) -> bool:
        """Runs the cursor until it is through, an output is blocked or the slice is over. Is it through?"""
        assert self._cursor is not None
        for _ in self._cursor:
            if self.outputs.blocked() or deadline():
                return False
        self._cursor = None
        return True

    # Next

    def _next(self) -> Iterator[None] | None:
        """The work that the next batch of some source, or element of some input, means."""
        alignment = self.alignment
        if self.sources and (read := self.intake.read(alignment.held)) is not None:
            return self._push_read(*read)
        if alignment.queue and (work := alignment.work()) is not None:
            return work
        if self.inputs and (taken := self.intake.take(alignment.held)) is not None:
            return self._push_taken(*taken)
        return None

    def _keep_up(self) -> Iterator[None] | None:
        """What an idle source promises that others wait for."""
        if self.alignment.works:
            return None  # it stands still, and has perhaps said its last word
        promised = self.quiet.keep_up()
        return None if promised is None else self._push_read(*promised, None)

    # Push

    def _push_read(self, source: Source, node: Node, batch: Batch | None) -> Iterator[None]:
        if source.since > self.since:
            self.learn_since(source.since)
        if source.late.batches:
            for late in source.late.take():
                for output in node.late:
                    self.walk.add(output, late)
                yield
        if batch is not None and len(batch.time):
            yield from self.walk.push(node, None, batch)
        if source.ended:
            self.intake.finished.add(source)
            yield from self._end(node, None)
        else:
            yield from self.walk.advance(node, None, source.watermark)
            if source.between_blocks:
                self.outputs.flush()

    def _push_taken(self, input_: Input, inbox: Inbox, element: Element, watermark: int) -> Iterator[None]:
        self.learn_since(inbox.since)
        match element:
            case Batch():
                yield from self.walk.push(input_.node, input_.port, element)
            case Fail(subquery, instance, cause):
                self.close(Fail(subquery, instance, cause))
                return
            case Stop():
                self.close(Stop())
                return
            case Idle():
                self.quiet.there = True
                if input_.merge.sleep(inbox.name, watermark):
                    yield from self.walk.advance(input_.node, input_.port, input_.merge.combined)
                return
            case Switch():
                input_.switch(inbox, watermark)
                self.switched.append(inbox)
                yield from self._catch_up([input_])
                return
            case Barrier():
                self.alignment.came(inbox, element)
            case End():
                inbox.ended = True
                input_.open -= 1
        if not input_.open:
            yield from self._end(input_.node, input_.port)
        elif input_.merge.update(inbox.name, watermark):
            yield from self.walk.advance(input_.node, input_.port, input_.merge.combined)

    def resume(self) -> None:
        """It has everything that it had elsewhere, and goes on."""
        self.life.enter("settle")
        self._begin_to_catch_up()

    def _begin_to_catch_up(self) -> None:
        self.quiet.there, self._cursor = True, self._catch_up_all()

    def _catch_up_all(self) -> Iterator[None]:
        for source, node in self.sources:
            if source.ended:
                self.intake.finished.add(source)
                yield from self._end(node, None)
            elif source.watermark > MIN_TIME:
                yield from self.walk.advance(node, None, source.watermark)
        yield from self._catch_up(self.inputs)

    def _catch_up(self, inputs: Sequence[Input]) -> Iterator[None]:
        """Comes as far as these inputs have promised."""
        for input_ in inputs:
            if not input_.open:
                yield from self._end(input_.node, input_.port)
            elif input_.merge.combined > MIN_TIME:
                yield from self.walk.advance(input_.node, input_.port, input_.merge.combined)

    def _end(self, node: Node, port: object) -> Iterator[None]:
        """An input is exhausted: a watermark of +inf; when every node has it, the instance ends."""
        yield from self.walk.advance(node, port, MAX_TIME)
        if all(n.merge.combined == MAX_TIME for n in self.nodes):
            self.close(End())

    # Its life

    def run(self) -> None:
        self.life.enter("run")
        if self.restored:
            self._begin_to_catch_up()

    def close(self, element: End | Stop | Fail) -> None:
        """The last element goes to every output."""
        if self.done:
            return
        if not isinstance(element, Fail):
            self.outputs.complete(isinstance(element, End))
        self.life.enter(_CLOSING[type(element)])
        self._cursor = None
        if isinstance(element, Fail):
            self.life.cause, self.failed_at = element.cause, (element.subquery, element.instance)
        for source, _ in self.sources:
            source.release()
        self.outputs.close(element)

    def fail(self, cause: str) -> None:
        self.close(Fail(self.subquery, self.index, cause))

    def withdraw(self) -> None:
        """It is not at home any more: what it was at lets go of it."""
        self._cursor = None

    def drain(self) -> None:
        """`stop --drain`: the source ends where it is."""
        for source, _ in self.sources:
            source.ended, source.watermark, source.idle = True, MAX_TIME, False

    def tick(self) -> None:
        """Every 100 ms: watermarks that no receiver was waiting for go too."""
        if self.state == "running":
            self.outputs.flush()

    def learn_since(self, since: int) -> None:
        """Rows before it are not this query's (rule 5.9)."""
        if since <= self.since:
            return
        self.since = since
        for output in self.outputs:
            output.since = since
        for node in self.nodes:
            if node.stateful is not None:
                node.stateful.since = since

    def number_rows(self) -> bool:
        """From now on what sources read has origins, for a query that reads an output. False: ask again, for tuples without are
        on their way."""
        if self._cursor is None:
            for source, _ in self.sources:
                source.origin = True
        return all(source.origin for source, _ in self.sources)
