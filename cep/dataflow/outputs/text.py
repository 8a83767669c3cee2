"""Text files of an output: a record a line, as sources of text read it (`cep.compile.text_rows`)."""

from __future__ import annotations

from collections.abc import Callable

from cep.compile.text_rows import TextRows
from cep.dataflow.outputs.staged import Appending
from cep.elements import Batch
from cep.model.schema import Schema
from cep.model.sinks import TextSink


class TextWriter:
    def __init__(self, files: TextSink, schema: Schema, file: Appending, refuse: Callable[[int, str], None]) -> None:
        self.text, self.file, self.refuse = TextRows(schema, files.separator), file, refuse
        self.text.warm()
        if files.header:
            file.write(self.text.header)

    def write(self, batch: Batch) -> None:
        records, unwritten = self.text.write(batch.columns)
        for row in unwritten:
            self.refuse(int(batch.time[row.row]), row.reason)
        self.file.write(records.data)

    def end(self) -> None:
        """Nothing stands behind the last record."""
