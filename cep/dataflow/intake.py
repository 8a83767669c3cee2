"""What an instance takes in next: a batch of a source, or an element of a channel; in turn, and of none that is held back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from cep.dataflow.channel import Inbox, watermark_after
from cep.dataflow.nodes import Input, Node
from cep.dataflow.outputs.output import concatenated
from cep.dataflow.sources.quiet import Quiet
from cep.dataflow.sources.source import ENOUGH_ROWS, Source
from cep.elements import Batch, Element, Watermark

#: What was read of a source, for its node. No batch: the source has promised more, or has ended.
Read = tuple[Source, Node, Batch | None]
#: An element of a channel of an input, and the watermark after it.
Taken = tuple[Input, Inbox, Element, int]


def read_of(source: Source, node: Node) -> Read | None:
    """None: it has nothing."""
    before = source.watermark
    batch = None if source.ended else source.read()
    return None if batch is None and source.watermark == before and not source.ended else (source, node, batch)


def take_of(inbox: Inbox, enough_rows: int) -> tuple[Element, int]:
    """The next element and the watermark after it. Small batches that wait behind each other are one, up to `enough_rows`, and of the
    watermarks there the last counts: what follows costs as much for a batch of few rows as for one of many."""
    element, carried = inbox.take()
    watermark, queue = watermark_after(element, carried), inbox.queue
    if not queue or not isinstance(element, Batch | Watermark):
        return element, watermark
    batches: list[Batch] = [element] if isinstance(element, Batch) else []
    rows = sum(map(len, batches))
    while queue:
        following = queue[0][0]
        if isinstance(following, Batch) and rows + len(following) <= enough_rows:
            batches.append(following)
            rows += len(following)
        elif not isinstance(following, Watermark):
            break
        watermark = watermark_after(*inbox.take())
    return concatenated(batches) if batches else element, watermark


@dataclass(frozen=True, slots=True)
class Taking:
    """How a source is read and an element taken: as it is, or metered (`cep.dataflow.metering`)."""

    read: Callable[[Source, Node], Read | None] = read_of
    take: Callable[[Inbox, int], tuple[Element, int]] = take_of


class Intake:
    """What an instance takes next: a read of its sources in turn (`sources` is rotated), or an element of its inputs."""

    def __init__(self, inputs: Sequence[Input], sources: list[tuple[Source, Node]], quiet: Quiet, taking: Taking) -> None:
        self.inputs, self.sources, self.quiet, self.taking = inputs, sources, quiet, taking
        self.finished: set[Source] = set()  # they have ended, and that was told
        self.enough_rows = ENOUGH_ROWS
        self.reads = 0  # how often a source had something
        self._turn = 0

    def read(self, held: Collection[object]) -> Read | None:
        """Of the next source that has something."""
        for _ in self.sources:
            if len(self.sources) > 1:
                self.sources.append(self.sources.pop(0))
            source, node = self.sources[-1]
            if source in held or source in self.finished:
                continue
            read = self.taking.read(source, node)
            self.quiet.there |= source.idle
            if read is not None:
                self.reads += 1
                return read
        return None

    def take(self, held: Collection[object]) -> Taken | None:
        """Of the next channel to which something has come."""
        pending = [(i, inbox) for i in self.inputs for inbox in i.inboxes if inbox.queue and inbox not in held]
        if not pending:
            return None
        self._turn += 1
        input_, inbox = pending[self._turn % len(pending)]
        return input_, inbox, *self.taking.take(inbox, self.enough_rows)
