"""Delimited text as a source (`cep.compile.text`)."""

from __future__ import annotations

from collections.abc import Collection

from cep.compile.text import TextParser
from cep.dataflow.sources.event_time import line_parser
from cep.dataflow.sources.lines import LineFormat, LineParser
from cep.model.streams import Stream, TextFiles
from cep.world.store import Store


def parser_of(stream: Stream, needed: Collection[str]) -> LineParser:
    """Parses the fields `needed` of the records of `stream`, and their event time."""
    files = stream.files
    assert isinstance(files, TextFiles)

    def make(fields: Collection[str], event_time: str | None) -> LineParser:
        return TextParser.make(stream.schema, fields, files.separator, event_time, stream.times)

    return line_parser(stream, needed, make)


class TextFormat(LineFormat):
    @classmethod
    def of(cls, stream: Stream, needed: Collection[str], read_bytes: int, store: Store) -> TextFormat:
        files = stream.files
        assert isinstance(files, TextFiles)
        return cls(store, parser_of(stream, needed), files.block_bytes, read_bytes, not stream.disorder, files.header)
