"""Files that an output is written to: one more target of its edge, which takes every batch at once.

An instance has a file of its own. It is written as rows come (a watermark is no reason to wait, and what was written is in the hands of
the operating system), and closed with the stream, however it closes.
"""

from __future__ import annotations

import os
from typing import Protocol

import pyarrow as pa

from cep.compile.text_rows import TextRows
from cep.dataflow.channel import Credit
from cep.dataflow.dead_letters import DeadLetters, Letter
from cep.dataflow.meter import Account, Meter
from cep.elements import LAST, MAX_TIME, Batch, Element
from cep.errors import ClusterError
from cep.kernels.columns import columns_to_arrow
from cep.model.schema import Schema
from cep.model.sinks import Files

#: So much is written with one call, at multiples of it: pages in memory are as large as a call and its place allow. Those of 2 MiB are
#: what a virtual machine's host takes back first and a guest pays for when it uses them again; calls at odd places get many small ones.
WRITE_BYTES = 128 << 10


class Boundless(Credit):
    """Of a target that takes everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self.returned = MAX_TIME

    def allows(self, size: int) -> bool:
        return True


class Rows(Protocol):
    """How rows become bytes of a file."""

    def begin(self) -> bytes: ...

    def bytes_of(self, batch: Batch) -> memoryview | pa.Buffer: ...

    def end(self) -> bytes: ...


class FileSink:
    """The sending end of a channel to a file."""

    shares = True

    def __init__(self, files: Files, stream: str, index: int, schema: Schema, dead_letters: DeadLetters) -> None:
        self.credit: Credit = Boundless()
        self.path = os.path.join(files.folder, files.name(stream, index))
        text = files.format == "text"
        self.rows: Rows = _Text(files, schema, stream, self.path, dead_letters) if text else _Arrow(schema)
        self._file: int | None = _create(files, self.path)
        self._position = 0
        self._write(self.rows.begin())

    def send(self, element: Element, size: int, watermark: int, since: int) -> None:
        """Raises ClusterError where the file cannot be written."""
        if isinstance(element, Batch):
            self._write(self.rows.bytes_of(element))
        elif isinstance(element, LAST):
            self._write(self.rows.end())
            self.close()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, data: bytes | memoryview | pa.Buffer) -> None:
        if self._file is None:
            return
        view = memoryview(data)
        start, stop = 0, WRITE_BYTES - self._position % WRITE_BYTES
        try:
            while start < len(view):
                start += os.write(self._file, view[start:stop])
                if start == stop:
                    stop += WRITE_BYTES
            self._position += start
        except OSError as error:
            raise ClusterError(f"file {self.path!r} cannot be written: {error.strerror}") from error


class MeteredSink:
    """A sink whose writing is on an account of its own; what led to it is on `before`, its output's."""

    shares = True

    def __init__(self, sink: FileSink, meter: Meter, before: Account) -> None:
        self.sink, self.meter, self.before, self.account = sink, meter, before, Account()
        self.credit = sink.credit

    def send(self, element: Element, size: int, watermark: int, since: int) -> None:
        self.meter.charge(self.before)
        self.sink.send(element, size, watermark, since)
        if isinstance(element, Batch):
            self.account.take(len(element))
        self.meter.charge(self.account)


def _create(files: Files, path: str) -> int:
    try:
        os.makedirs(files.folder, exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if files.overwrite else os.O_EXCL), 0o644)
    except FileExistsError:
        raise ClusterError(f"file {path!r} is there already: name another folder, remove it, or ask for overwrite") from None
    except OSError as error:
        raise ClusterError(f"file {path!r} cannot be made: {error.strerror}") from error


class _Text:
    def __init__(self, files: Files, schema: Schema, stream: str, path: str, dead_letters: DeadLetters) -> None:
        self.text = TextRows(schema, files.separator)
        self.text.warm()
        self.header, self.stream, self.path, self.dead_letters = files.header, stream, path, dead_letters

    def begin(self) -> bytes:
        return self.text.header if self.header else b""

    def bytes_of(self, batch: Batch) -> memoryview:
        records, unwritten = self.text.write(batch.columns)
        for row in unwritten:
            self.dead_letters.put(Letter(self.stream, row.reason, self.path, f"event time {int(batch.time[row.row])} µs"))
        return memoryview(records.data)

    def end(self) -> bytes:
        return b""


class _Arrow:
    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def begin(self) -> bytes:
        message: bytes = self.schema.arrow.serialize().to_pybytes()
        return message

    def bytes_of(self, batch: Batch) -> pa.Buffer:
        return columns_to_arrow(batch.columns, self.schema).serialize()

    def end(self) -> bytes:
        return b"\xff\xff\xff\xff\x00\x00\x00\x00"  # the end of a stream, as the format has it
