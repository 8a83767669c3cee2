"""The piece of a checkpoint that an instance adds: everything that the next one in its place needs to go on, as states and as bytes.

Parts of the state of operators, and documents (its figures, its subscriptions with what they keep, the files that its sinks have staged),
are taken while the instance stands still. They are made States (`cep.elements.State`; of documents without an operator) and bytes of, and
written, beside it, one after the other: nothing that they refer to is written any more (`StatefulOperator`, rule 1).

As bytes a piece is a magic word, and the states, each an IPC stream behind its length. All begin at multiples of ALIGNED, so they are read
where they lie.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain, groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cep.dataflow.build import STATE_FORMAT
from cep.dataflow.movement.figures import Figures, figures_of, take_figures
from cep.dataflow.movement.instance_move import FIGURES, move_document, value_of
from cep.dataflow.movement.owners import everything
from cep.dataflow.operators.operator import AggregateOperator, KeepsBlocks, Part, StatefulOperator
from cep.dataflow.outputs.sink import CommittedSink
from cep.dataflow.sources.published import PublishedSource
from cep.elements import State
from cep.errors import ClusterError
from cep.kernels.arrays import bytes_array, int64_array
from cep.transport import wire
from cep.transport.sockets import Sockets
from cep.transport.wire import TIME, Format, Header
from instance_manager.clients.subscriptions import Terms
from instance_manager.hosting import InstanceHost, open_subscription
from instance_manager.recovery.increments import PieceKey, blocks_state, inherited
from instance_manager.recovery.kept import KeptChannel, Restored
from instance_manager.recovery.runs import Kept, Message, Run, joined, rows_of, size_of
from instance_manager.recovery.scaled import Shared, parts_in

ALIGNED = 64
#: A message of so many bytes has a State of its own.
LARGE_BYTES = 128 << 10
_MAGIC = b"CEPPIECE".ljust(ALIGNED)
_LENGTH = struct.Struct("<Q")


class _Parts(io.RawIOBase):
    """What is written to it, as it is: the columns of a batch are not copied."""

    def __init__(self) -> None:
        self.written: list[bytes | memoryview] = []

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self.written.append(memoryview(part))
        return len(part)


class TakenPart(NamedTuple):
    """Of the state of `operator`."""

    operator: str
    part: Part

    @property
    def state(self) -> State:
        return State(self.operator, self.part.name, self.part.port, self.part.batch)


class TakenMessages(NamedTuple):
    """What a subscription keeps."""

    there: list[Kept]

    def states(self) -> Iterator[State]:
        """Large ones alone, for then their bytes are not copied."""
        for is_large, some in groupby(joined(self.there), lambda each: size_of(each) >= LARGE_BYTES):
            for few in ([each] for each in some) if is_large else [some]:
                yield State("", "kept", 0, _rows_of(list(few)))


#: What is taken while the instance stands, of which States are made beside it.
TakenState = TakenPart | TakenMessages | Figures | State


def states_made(taken: Iterable[TakenState]) -> Iterator[State]:
    for each in taken:
        match each:
            case TakenPart():
                if each.part.blocks is not None:
                    yield blocks_state(each.part.blocks)
                yield each.state
            case TakenMessages():
                yield from each.states()
            case Figures():
                yield move_document(FIGURES, each.to_json())
            case State():
                yield each


def bytes_of(states: Iterable[State]) -> Iterator[bytes | memoryview]:
    """The piece, in parts one behind the other."""
    yield _MAGIC
    for state in states:
        parts = _Parts()
        wire.write_state(state, pa.PythonFile(parts, "w"))
        size = sum(map(len, parts.written))
        yield _LENGTH.pack(size).ljust(ALIGNED)
        yield from parts.written
        yield bytes(-size % ALIGNED)


def taken_of(hosted: InstanceHost, number: int) -> Iterator[TakenState]:
    """As it stands now, but for what earlier pieces have of it (`cep.dataflow.operators.operator.KeepsBlocks`)."""
    for node in hosted.instance.nodes:
        for part in _parts_of(node.stateful, number):
            yield TakenPart(node.operator.name, part)
    yield figures_of(hosted.instance, hosted.movement.buckets)
    yield move_document("over", hosted.instance.state == "ended")
    yield move_document("sinks", [sink.kept() for sink in sinks_of(hosted)])
    for outlet in hosted.outlets.values():
        yield move_document("dropped", {"stream": outlet.stream, "ids": sorted(outlet.dropped)})
        for subscription in outlet.subscriptions.values():
            if isinstance(subscription, KeptChannel):
                yield move_document("subscription", _described(subscription))
                yield TakenMessages(list(subscription.kept()))


def _parts_of(operator: StatefulOperator | None, number: int) -> list[Part]:
    if operator is None:
        return []
    return operator.changes(number) if isinstance(operator, KeepsBlocks) else operator.snapshot()


def _described(subscription: KeptChannel) -> dict[str, Any]:
    counts = [subscription.sent_until, subscription.sequence, subscription.rows, subscription.dropped]
    own = {"stream": subscription.name, "terms": asdict(subscription.terms), "time": subscription.format.time, "counts": counts}
    return own | {"closed": subscription.closed, "lineage": subscription.lineage, "restores": subscription.restores}


def _rows_of(there: Sequence[Kept]) -> pa.RecordBatch:
    """A row for each message, and for each run: what lies in it has no header of its own, and `rows_at` is not -1."""
    headers = bytes_array([None if isinstance(each, Run) else each[0].pack() for each in there], pa.large_binary())
    bodies = bytes_array([each.laid if isinstance(each, Run) else each[1] for each in there], pa.large_binary())
    counts = ([rows_of(each) for each in there], [each.rows_at if isinstance(each, Run) else -1 for each in there])
    rows, rows_at = (int64_array(np.array(each, np.int64)) for each in counts)
    return pa.RecordBatch.from_arrays([headers, bodies, rows, rows_at], ["header", "body", "rows", "rows_at"])


def sinks_of(hosted: InstanceHost) -> list[CommittedSink]:
    """Those that show files when a commit covers them, in the order of the plan."""
    channels = (target.channel for output in hosted.instance.outputs for target in output.targets)
    return [channel for channel in channels if isinstance(channel, CommittedSink)]


def kept_of(hosted: InstanceHost) -> list[KeptChannel]:
    """Its subscriptions."""
    there = (each for outlet in hosted.outlets.values() for each in outlet.subscriptions.values())
    return [each for each in there if isinstance(each, KeptChannel)]


# --- restoring -----------------------------------------------------------------------------------------------------------


def states_in(piece: memoryview) -> list[State]:
    """They look at its bytes. Raises ClusterError: it is no piece."""
    if (begin := bytes(piece[:ALIGNED])) != _MAGIC:
        raise ClusterError(f"a piece of a checkpoint: expected {_MAGIC!r} at its beginning, got {begin!r}")
    found, at = list[State](), len(_MAGIC)
    while at < len(piece):
        (size,) = _LENGTH.unpack_from(piece, at)
        at += ALIGNED
        state = wire.element_of(Header(wire.STATE, 0), piece[at : at + size], STATE_FORMAT)
        assert isinstance(state, State)
        found.append(state)
        at += size + -size % ALIGNED
    return found


def restore(
    hosted: InstanceHost,
    states: Sequence[State],
    wanted: Collection[str],
    number: int,
    shared: Shared | None = None,
    own: PieceKey | None = None,
) -> None:
    """Makes of a new instance what the piece of checkpoint `number` says. `wanted`: the subscriptions that there are; others have been
    given up since. `shared`: what it takes its part of, if its subquery is dealt anew. `own`: that piece, if what it is to
    write next may need it."""
    instance = hosted.instance
    assert hosted.recovery is not None
    hosted.recovery.restored = number
    if own is not None:
        hosted.recovery.pieces = inherited(states, number, own)
    for node in instance.nodes:
        if isinstance(node.operator, AggregateOperator):
            node.operator.spec.warm(restored=True)
        if node.stateful is None:
            continue
        name = node.operator.name
        if parts := parts_in(states, name) if shared is None else shared.parts(name):
            node.stateful.restore(parts, everything if shared is None else shared.keep(name))
    documents = {state.part: value_of(state) for state in states if not state.operator and state.part in (FIGURES, "over", "sinks")}
    figures = Figures.from_json(documents[FIGURES])
    take_figures(instance, hosted.movement.buckets, figures)
    for source, node in instance.sources:
        if isinstance(source, PublishedSource):
            source.expect_again(dict(figures.sources[node.operator.name].position))
    for sink, kept in zip(sinks_of(hosted), documents["sinks"], strict=True):
        sink.restore(kept)
    _restore_subscriptions(hosted, states, wanted)
    for state in states:
        if not state.operator and state.part == "dropped":
            _drop(hosted, **value_of(state))
    if documents["over"]:
        instance.life.enter("was over")
    else:
        instance.restored = True


def reopen_readers(hosted: InstanceHost, states: Iterable[State], sockets: Sockets) -> set[str]:
    """The subscriptions of queries that read what it puts out are known by its pieces alone; their ids. One that does not come again is
    dropped as any that is silent."""
    found = set[str]()
    for state in states:
        if state.part == "subscription" and not state.operator and value_of(state)["terms"]["reader"]:
            document = value_of(state)
            terms = Terms(**document["terms"])
            outlet = next(outlet for outlet in hosted.outlets.values() if outlet.stream == document["stream"])
            if terms.origin:
                hosted.instance.number_rows()
            subscription = open_subscription(sockets, outlet, terms)
            for output in hosted.instance.outputs:
                if output.name == outlet.stream:
                    output.attach(subscription, terms.origin, terms.grain)
            found.add(terms.id)
    return found


def _drop(hosted: InstanceHost, stream: str, ids: Collection[str]) -> None:
    """Subscriptions that were dropped before the checkpoint are not there again after it, though the orchestrator knows them yet."""
    for outlet in hosted.outlets.values():
        if outlet.stream == stream:
            outlet.dropped = set(ids)
            for subscription in [outlet.subscriptions.pop(id_) for id_ in ids if id_ in outlet.subscriptions]:
                for output in hosted.instance.outputs:
                    output.detach(subscription)


def _restore_subscriptions(hosted: InstanceHost, states: Iterable[State], wanted: Collection[str]) -> None:
    there = {each.terms.id: each for each in kept_of(hosted)}
    own = hosted.recovery
    assert own is not None
    for each in there.values():  # unless it was there at the checkpoint already
        each.begin_anew(own.attempt, own.restored)
    for found, kept in _subscriptions_in(states):
        subscription = there.get(found["terms"]["id"]) if found["terms"]["id"] in wanted else None
        if subscription is not None:
            _take(subscription, found)
            rows = chain.from_iterable(state.rows.to_pylist() for state in kept)
            subscription.restore(chain.from_iterable(map(kept_in, rows)), own.attempt, own.restored)


def _subscriptions_in(states: Iterable[State]) -> list[tuple[dict[str, Any], list[State]]]:
    """What is said of each, and what it keeps, which stands behind it."""
    found = list[tuple[dict[str, Any], list[State]]]()
    for state in states:
        if not state.operator and state.part == "subscription":
            found.append((value_of(state), []))
        elif not state.operator and state.part == "kept":
            found[-1][1].append(state)
    return found


def kept_in(row: Mapping[str, Any]) -> Iterator[Message]:
    if row.get("rows_at", -1) >= 0:
        return Run(row["body"], 0, 0, row["rows"], 0, row["rows_at"]).messages()
    return iter([(wire.unpack(row["header"]), row["body"], row["rows"])])


def _take(subscription: KeptChannel, found: Mapping[str, Any]) -> None:
    now = subscription.terms  # another process may have it by now
    if not now.reader:
        terms = Terms(**{**found["terms"], "columns": None})
        subscription.terms = replace(terms, endpoint=now.endpoint, holder=now.holder, keep_s=now.keep_s)
        subscription.format = Format(subscription.format.schema, 0, TIME if found["time"] else "")
    subscription.lineage = found["lineage"]
    subscription.sent_until, subscription.sequence, subscription.rows, subscription.dropped = found["counts"]
    subscription.closed = found["closed"]
    subscription.restores = [Restored(*each) for each in found["restores"]]
