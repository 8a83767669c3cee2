"""What most sources and sinks are that neither read anew nor keep tokens: one reader, one writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from connectors.contract import AnswerSink, AnswerWriter, Place, RecordReader, RecordSource


class LiveSource(RecordSource):
    """One partition, of what goes on whether it is read or not."""

    replayable, numbered = False, False

    def __init__(self, partition: str, reader: Callable[[], RecordReader]) -> None:
        self.partition, self.reader = partition, reader

    def partitions(self) -> Sequence[str]:
        return (self.partition,)

    def open(self, partition: str, place: Place | None) -> RecordReader:
        return self.reader()


class TokenlessSink(AnswerSink):
    """The writer is told the connector's name and its epoch."""

    keeps_tokens = False

    def __init__(self, writer: Callable[[str, int], AnswerWriter]) -> None:
        self.writer = writer

    def open(self, name: str, epoch: int) -> AnswerWriter:
        return self.writer(name, epoch)
