"""All outputs of one instance: what its step emits through, and what it looks at between two elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cep.dataflow.meter import Meter
from cep.dataflow.outputs.output import EdgeOutput
from cep.elements import Batch, End, Fail, Stop

#: How long tuples may be gathered for more while the input is never empty, so that an instance with too much to do still gives out.
LINGER_NS = 10_000_000


@dataclass(frozen=True, slots=True)
class Emitting:
    """What is done with an output: as the output does it, or metered (`cep.dataflow.metering`)."""

    add: Callable[[EdgeOutput, Batch], None] = EdgeOutput.add
    advance: Callable[[EdgeOutput, int], bool] = EdgeOutput.advance
    flush: Callable[[EdgeOutput], None] = EdgeOutput.flush
    flush_rows: Callable[[EdgeOutput], None] = EdgeOutput.flush_rows
    pump: Callable[[EdgeOutput], bool] = EdgeOutput.pump
    depart: Callable[[EdgeOutput], None] = EdgeOutput.depart


class Outputs(list[EdgeOutput]):
    """The outputs of an instance: how they are emitted, and since when tuples are gathered by the clock of `meter`."""

    __slots__ = ("_gathering_from", "emitting", "meter")

    def __init__(self, outputs: Iterable[EdgeOutput], emitting: Emitting, meter: Meter) -> None:
        super().__init__(outputs)
        self.emitting, self.meter = emitting, meter
        self._gathering_from = 0  # since when tuples are gathered, by the meter's clock

    def blocked(self) -> bool:
        """Does one of them wait for credit?"""
        for output in self:  # noqa: SIM110  (`any` takes three times as long, and this is asked between two steps)
            if output.blocked:
                return True
        return False

    def handed_bytes(self) -> int:
        """Handed to neighbours as they were, in all."""
        handed = 0
        for output in self:
            handed += output.handed_bytes
        return handed

    def pump(self) -> bool:
        """Sends what waits and has credit by now. Does nothing wait any more?"""
        for output in self:
            self.emitting.pump(output)
        self.note_stalls()
        return not self.blocked()

    def note_stalls(self) -> None:
        for output in self:
            if output.blocked or output.stall.since is not None:
                output.stall.note(output.blocked, self.meter.mark)

    def flush_rows(self) -> None:
        """What was gathered goes (adaptive batching)."""
        self._gathering_from = self.meter.mark
        for output in self:
            if output.holds:
                self.emitting.flush_rows(output)

    def flush_lingering(self) -> None:
        """The same where it has been gathered for long."""
        if self.meter.mark - self._gathering_from > LINGER_NS:
            self.flush_rows()

    def flush(self) -> None:
        """What was gathered goes, and every target learns the watermark."""
        for output in self:
            self.emitting.flush(output)

    def depart(self) -> None:
        """The instance moves."""
        for output in self:
            self.emitting.depart(output)

    def complete(self, ended: bool) -> None:
        """What is shown as a whole is shown before anything hears that the stream is over. Raises ClusterError where that cannot be: then
        the stream is not over, but has failed."""
        for completing in [each for output in self for each in output.complete(ended)]:
            completing.finish()

    def close(self, element: End | Stop | Fail) -> None:
        """The last element, to all of them."""
        for output in self:
            output.close(element)
