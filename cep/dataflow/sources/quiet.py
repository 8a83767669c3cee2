"""What is idle in a subquery instance, and how far the rest wants it to come (rule 4.12).

Rules:

1. Idle is decided by a publisher's library alone. A source whose publishers are all idle is idle; so is a node whose inputs are all idle
   or have ended, an output behind it, and at the other end the channels from there.
2. No node passes an idle input over. Where others have come further, it is asked to come as far: the question goes up, with the credit
   of a channel, to the source, and the source promises what it is asked for (`PublishedSource.follow`). The promise comes back as any
   watermark does.
3. So what was answered without an idle stream is known in one place, its source. A publisher that sends again is registered there at
   what the source has promised, and its stamp starts at the greatest of these answers (rule 4.11): what is older is late, decided and
   counted where all late rows are. Everything behind the source works as if nothing had ever been idle.
4. Where all are idle none is ahead, and the watermark stands. Where the others have ended, an idle one is asked for what lets out the
   rows that a join holds, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence

from cep.dataflow.nodes import Input, Node
from cep.dataflow.operators.delay import DelayOperator
from cep.dataflow.operators.operator import RunningOperator
from cep.dataflow.sources.source import Source
from cep.elements import MAX_TIME, MIN_TIME


class Quiet:
    """What is idle in an instance. `there`: something is, or was a moment ago."""

    __slots__ = ("inputs", "nodes", "sources", "there")

    def __init__(self, nodes: Sequence[Node], inputs: Sequence[Input], sources: Sequence[tuple[Source, Node]]) -> None:
        self.nodes, self.inputs, self.sources = nodes, inputs, sources
        self.there = False

    def keep_up(self) -> tuple[Source, Node] | None:
        """An idle source that has promised more, for others have come further; None: there is none, and what is idle is said, and asked to
        come as far as others."""
        self._mark()
        for source, node in self.sources:
            if source.idle and source.follow(wanted_of(node)):
                return source, node
        self._tell()
        self._ask()
        return None

    def _mark(self) -> None:
        """Notes at every node which of its inputs are idle."""
        for source, node in self.sources:
            _note(node, None, source.idle)
        for input_ in self.inputs:
            _note(input_.node, input_.port, input_.merge.asleep)
        while any([_passed_on(node) for node in self.nodes]):
            pass
        self.there = any(node.merge.idle for node in self.nodes) or any(input_.merge.idle for input_ in self.inputs)

    def _tell(self) -> None:
        """Outputs behind idle nodes say so."""
        for node in self.nodes:
            for output in node.outputs:
                output.idle = node.merge.asleep
                if output.idle:
                    output.rest()

    def _ask(self) -> None:
        """Idle channels are asked, with the credit that goes back, to come as far as is wanted."""
        for input_ in self.inputs:
            if input_.merge.idle:
                awake = input_.merge.awake()
                wanted = wanted_of(input_.node) if awake is None else awake
                input_.merge.wanted = max(input_.merge.wanted, wanted)


def _passed_on(node: Node) -> bool:
    """Was it news to a reader of `node` whether it is idle?"""
    return any([_note(consumer, port, node.merge.asleep) for consumer, port in node.consumers])


def _note(node: Node, port: object, idle: bool) -> bool:
    noted = node.merge.idle
    if (port in noted) == idle:
        return False
    noted.symmetric_difference_update((port,))
    return True


def wanted_of(node: Node) -> int:
    """How far an idle input of `node` is wanted to come; MIN_TIME: none is ahead of it."""
    awake = node.merge.awake()
    if awake is not None:
        return awake
    behind = [_before(node.operator, wanted_of(consumer)) for consumer, _ in node.consumers]
    behind += [_before(node.operator, output.wanted) for output in node.outputs]
    return max([*behind, _held(node)], default=MIN_TIME)


def _before(operator: RunningOperator, watermark: int) -> int:
    """What its input has to promise for it to promise `watermark`."""
    return watermark - operator.by if isinstance(operator, DelayOperator) and watermark > MIN_TIME else watermark


def _held(node: Node) -> int:
    """The watermark that lets out what a join holds of inputs that have ended; MIN_TIME: none is needed."""
    if node.stateful is None or MAX_TIME not in node.merge.times.values():
        return MIN_TIME
    end = node.stateful.last_end
    return MIN_TIME if end is None else end
