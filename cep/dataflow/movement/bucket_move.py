"""What an instance does between an old table of buckets and a new one (rule 6.3; paper 4.1.1).

1. Every instance that sends to the *head*, the subquery that the table belongs to, sends a TableBarrier on all its edges there,
   whenever it hears of the new table: it routes by the old table before it and by the new one after it (`EdgeOutput.reroute`). The Barrier
   carries the table, so the receivers need not be told.
2. An instance that has it from all inputs has come as far in event time as every other one has there: each sender gave all of them
   the same watermark with its Barrier. So groups can be handed over as they are: no window is answered twice, and none not at all.
3. It sends the Barrier on to the subqueries that keep its partitioning, which do the same. Then it takes its whole state out, puts back
   what stays, and sends each new owner its rows, on a channel between the two, a piece at a time, and the Barrier behind them.
4. It takes no tuples until its own pieces are sent and the Barrier has come from each giver of a bucket. Pieces are taken
   and sent whatever else it waits for, so no instances wait in a circle. Chosen instead of going on with the other buckets: what
   came behind the Barrier waits in its inboxes under the credit it has anyway, the watermark stands still by itself, and the
   pause is as long as one copy of the moved state.
5. One table at a time: the next is named when all instances have told the version of the last. A checkpoint waits likewise.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from cep.dataflow.channel import Channel, Inbox
from cep.dataflow.meter import Account, Meter
from cep.dataflow.movement.alignment import Work
from cep.dataflow.movement.owners import Owners, everything
from cep.dataflow.nodes import Node, Walk
from cep.dataflow.operators.operator import Part, StatefulOperator
from cep.dataflow.outputs.output import EdgeOutput
from cep.dataflow.sources.source import Source
from cep.elements import MIN_TIME, State, TableBarrier
from cep.errors import ProtocolError
from cep.kernels.arrays import mask_array

PIECE_BYTES = 1 << 20


class BucketMove:
    """Handles the TableBarriers of an instance. `keeping`: its outputs to subqueries that keep its partitioning."""

    def __init__(
        self,
        buckets: InstanceBuckets,
        walk: Walk,
        nodes: Sequence[Node],
        keeping: Sequence[EdgeOutput],
        meter: Meter,
        account: Account,
    ) -> None:
        self.buckets, self.walk, self.nodes, self.keeping = buckets, walk, nodes, keeping
        self.meter, self.account = meter, account

    def begin(self) -> None:
        self.buckets.begin()

    def is_past(self, source: Source) -> bool:
        return True

    def run(self, barrier: TableBarrier) -> Iterator[Work | None]:
        yield self.walk.let_out_partials(self.nodes)
        for output in self.keeping:
            output.reroute(barrier)
        self.buckets.depart(barrier)
        self.pump()
        while self.buckets.waits_for:
            yield None
        self.buckets.arrive()
        self.meter.charge(self.account)

    def pump(self) -> bool:
        """Sends what has credit, takes what has come. Was there anything?"""
        moved = self.buckets.pump()
        if moved:
            self.meter.charge(self.account)
        return moved

    @property
    def waits_for(self) -> str:
        others = self.buckets.waits_for
        return f"state of buckets that move, to or from instances {', '.join(map(str, others))}" if others else ""


class InstanceBuckets:
    """The buckets of instance `index` of its replica: which it has, and how their state comes and goes.

    `channels` and `inboxes` are by the index of the instance at the other end. `clock`: µs.
    """

    def __init__(
        self,
        index: int,
        table: np.ndarray,
        operators: Sequence[tuple[StatefulOperator, Owners]],
        channels: dict[int, Channel],
        inboxes: dict[int, Inbox],
        clock: Callable[[], int],
    ) -> None:
        self.index, self.table, self.operators = index, table, operators
        self.channels, self.inboxes, self.clock = channels, inboxes, clock
        self.version = 0  # of the table
        self.moves = self.rows_moved = self.bytes_moved = self.paused_us = 0  # moves it had a part in; of what it has sent
        self.under_way: TableBarrier | None = None
        self._since_us = 0
        self._outgoing: dict[int, deque[State | TableBarrier]] = {}
        self._arrived: dict[int, list[State]] = defaultdict(list)
        self._complete: dict[int, int] = {}  # the instance from which all has come -> of which version

    def meet(self, index: int, channel: Channel, inbox: Inbox) -> None:
        """Instance `index` has moved: state goes to its new place, and comes from there."""
        self.channels[index], self.inboxes[index] = channel, inbox

    def begin(self) -> None:
        """A TableBarrier has come on some input."""
        self._since_us = self._since_us or self.clock()

    def depart(self, barrier: TableBarrier) -> None:
        """It has come on all: what goes to other instances leaves the operators."""
        self.under_way = barrier
        table = self._new_table
        leaving = (self.table == self.index) & (table != self.index)
        takers: list[int] = np.unique(table[leaving]).tolist()
        self._outgoing = {taker: deque() for taker in takers}
        for operator, owners in self.operators if takers else ():
            self._divide(operator, owners, table)
        for queue in self._outgoing.values():
            queue.append(barrier)
        self.moves += bool(takers or self._givers)

    @property
    def _new_table(self) -> np.ndarray:
        assert self.under_way is not None
        return np.array(self.under_way.table, np.int32)

    @property
    def _givers(self) -> list[int]:
        """The instances that give it a bucket."""
        givers: list[int] = np.unique(self.table[(self._new_table == self.index) & (self.table != self.index)]).tolist()
        return givers

    def _divide(self, operator: StatefulOperator, owners: Owners, table: np.ndarray) -> None:
        parts = [Part(part.name, part.port, part.batch) for part in operator.snapshot()]
        owned = [owners.of_part(part, table) for part in parts]
        operator.clear()
        operator.restore([_rows_of(part, of, self.index) for part, of in zip(parts, owned, strict=True)], everything)
        for taker, queue in self._outgoing.items():
            for part, of in zip(parts, owned, strict=True):
                for rows in pieces(_rows_of(part, of, taker).batch):
                    self.rows_moved += rows.num_rows
                    self.bytes_moved += rows.nbytes
                    queue.append(State(operator.name, part.name, part.port, rows))

    def pump(self) -> bool:
        """Sends what has credit, takes what has come. Was there anything?"""
        moved = False
        for taker, queue in self._outgoing.items():
            while queue and self._send(self.channels[taker], queue[0]):
                queue.popleft()
                moved = True
        for giver, inbox in self.inboxes.items():
            while inbox.queue:
                self._take(giver, inbox.take()[0])
                moved = True
        return moved

    def _send(self, channel: Channel, element: State | TableBarrier) -> bool:
        size = element.rows.nbytes if isinstance(element, State) else 0
        if size and not channel.credit.allows(size):
            return False
        channel.send(element, size, MIN_TIME, MIN_TIME)
        return True

    def _take(self, giver: int, element: State | TableBarrier) -> None:
        if isinstance(element, State):
            self._arrived[giver].append(element)
        else:
            self._complete[giver] = element.number

    @property
    def waits_for(self) -> list[int]:
        """The instances that it has to send to or to hear from before it goes on."""
        if self.under_way is None:
            return []
        to = [taker for taker, queue in self._outgoing.items() if queue]
        return to + [giver for giver in self._givers if giver not in self._complete]

    def arrive(self) -> None:
        """All has come that it waited for: it is its own from now on."""
        assert self.under_way is not None
        number, givers = self.under_way.number, self._givers
        wrong = [giver for giver in self._complete if giver not in givers or self._complete[giver] != number]
        if wrong:
            raise ProtocolError(f"state of buckets from instance {wrong[0]}: not of table version {number}, which is under way")
        for operator, _ in self.operators:
            found = [part for giver in givers for part in merged_pieces(self._arrived[giver], operator.name)]
            if found:
                operator.restore(found, everything)
        self.table, self.version, self.under_way = self._new_table, number, None
        self._outgoing, self._complete = {}, {}
        self._arrived.clear()
        self.paused_us, self._since_us = self.paused_us + self.clock() - self._since_us, 0


def merged_pieces(pieces: Sequence[State], operator: str) -> list[Part]:
    """The parts of the state of `operator` that one instance sent, each in one batch again: the rows of a group belong together."""
    found: dict[tuple[str, int], list[pa.RecordBatch]] = defaultdict(list)
    for piece in pieces:
        if piece.operator == operator:
            found[piece.part, piece.port].append(piece.rows)
    return [Part(*place, pa.concat_batches(rows)) for place, rows in found.items()]


def _rows_of(part: Part, owners: np.ndarray, index: int) -> Part:
    return Part(part.name, part.port, part.batch.filter(mask_array(owners == index)))


def pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """`rows` in pieces of about PIECE_BYTES; none where there are no rows."""
    most = max(1, rows.num_rows * PIECE_BYTES // max(rows.nbytes, 1))
    for start in range(0, rows.num_rows, most):
        yield rows.slice(start, most)
