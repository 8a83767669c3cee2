"""Opens the source of a stream as it is described (`cep.plan.sources`), the same in a host as in a local run.

What only the surroundings know, they add through `Surroundings`: which publishers there are, and how to reach another query's instances.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Protocol

from cep.dataflow.sources.arrow_files import ArrowFormat
from cep.dataflow.sources.blocks import BlockFormat, cut_blocks
from cep.dataflow.sources.files import FileSource
from cep.dataflow.sources.json_lines import JsonLinesFormat
from cep.dataflow.sources.parquet import ParquetFormat
from cep.dataflow.sources.partitioned import check_apart
from cep.dataflow.sources.published import PublishedSource
from cep.dataflow.sources.query_source import QuerySource
from cep.dataflow.sources.source import READ_BYTES, Reading, Source
from cep.dataflow.sources.text import TextFormat
from cep.model.streams import ArrowFiles, JsonLinesFiles, ParquetFiles, Stream, TextFiles
from cep.plan.physical import Feed
from cep.plan.sources import FileStream, PublishedStream, QueryStream, SourceDescription
from cep.world.store import Store


class Surroundings(Protocol):
    """A host, or a local run."""

    def admit(self, source: PublishedSource, reading: Reading) -> None:
        """Publishers may come to it."""

    def attach(self, source: QuerySource, feed: Feed, reading: Reading) -> None:
        """The instances that produce it are asked for it."""


def open_source(described: SourceDescription, reading: Reading, surroundings: Surroundings) -> Source:
    """Compiles what it needs, and reads the heads of files. Raises ClusterError where a file cannot be read."""
    return OPEN[type(described)](described, reading, surroundings)


def _published(described: PublishedStream, reading: Reading, surroundings: Surroundings) -> Source:
    stream = reading.stream
    source = PublishedSource(
        stream.name,
        stream.disorder or 0,
        reading.source_index,
        reading.origin,
        reading.dead_letters,
        times=stream.times,
        may_idle=stream.idle_after is not None,
        columns=reading.columns.names,
    )
    surroundings.admit(source, reading)
    return source


def _files(described: FileStream, reading: Reading, surroundings: Surroundings) -> Source:
    format_ = format_of(reading.stream, reading.columns.names, reading.store, reading.read_bytes)
    format_.warm()
    blocks = cut_blocks(reading.stream, described.files, format_)
    if not described.is_dealt:
        return FileSource(reading, format_, blocks)
    if reading.reader == 0 and described.by:
        check_apart(reading.stream, format_.peeking(), blocks)
    readers = reading.readers // described.copies
    replica, reader = divmod(reading.reader, readers)
    own = {path for path, _ in described.files_of(replica)}
    return FileSource(replace(reading, reader=reader, readers=readers), format_, [block for block in blocks if block.path in own])


def _fed(described: QueryStream, reading: Reading, surroundings: Surroundings) -> Source:
    producers = [index for index, _ in described.feed.producers]
    source = QuerySource(reading.stream.name, described.feed.query, producers, described.renumbering)
    surroundings.attach(source, described.feed, reading)
    return source


#: A new format of files is registered here, under the class that describes it.
BLOCK_FORMATS: Mapping[type, type[BlockFormat]] = {
    TextFiles: TextFormat,
    JsonLinesFiles: JsonLinesFormat,
    ParquetFiles: ParquetFormat,
    ArrowFiles: ArrowFormat,
}


def format_of(stream: Stream, needed: Collection[str], store: Store, read_bytes: int = READ_BYTES) -> BlockFormat:
    """How the files of `stream`, which are in `store`, are read."""
    return BLOCK_FORMATS[type(stream.files)].of(stream, needed, read_bytes, store)


def check_file(stream: Stream, path: str, store: Store) -> None:
    """Raises DataError: the file cannot be one of the stream's."""
    BLOCK_FORMATS[type(stream.files)].check(stream, path, store)


#: A new kind of source is registered here, under its description.
OPEN: Mapping[type, Callable[[Any, Reading, Surroundings], Source]] = {
    PublishedStream: _published,
    FileStream: _files,
    QueryStream: _fed,
}
