"""Files of an output in the IPC stream format of Arrow."""

from __future__ import annotations

from collections.abc import Callable

from cep.dataflow.outputs.staged import Appending
from cep.elements import Batch
from cep.kernels.columns import columns_to_arrow
from cep.model.schema import Schema
from cep.model.sinks import ArrowSink

END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # of a stream, as the format has it


class ArrowStreamWriter:
    def __init__(self, files: ArrowSink, schema: Schema, file: Appending, refuse: Callable[[int, str], None]) -> None:
        self.schema, self.file = schema, file
        file.write(schema.arrow.serialize())

    def write(self, batch: Batch) -> None:
        self.file.write(columns_to_arrow(batch.columns, self.schema).serialize())

    def end(self) -> None:
        self.file.write(END_OF_STREAM)
