"""Files that an output is written to, beside its subscribers: one class for each format.

Rows go to files in `folder`, an absolute path, made if it is not there; a file for each instance that puts them out. `overwrite`: a file
that is there already is replaced; otherwise it is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from cep.model import file_documents
from cep.model.file_documents import AnyType, check_separator
from cep.model.limits import name_in_files
from cep.model.schema import DataType


class SinkFiles(Protocol):
    """What else they say of themselves are the options of the format."""

    format: ClassVar[str]

    @property
    def folder(self) -> str: ...

    @property
    def overwrite(self) -> bool: ...

    @property
    def suffix(self) -> str:
        """The ending of the names of files."""

    def refuses(self, type_: DataType) -> str:
        """Why they hold no values of a type; empty: they do."""


def name_of(files: SinkFiles, stream: str, index: int, part: int = 0) -> str:
    """The name of the file of instance `index`, and of those that it writes behind the first."""
    return f"{name_in_files(stream)}-{index:05}{f'-{part:05}' if part else ''}.{files.suffix}"


def explain_sink(files: SinkFiles) -> str:
    return f"files of {files.format} in {files.folder!r}"


@dataclass(frozen=True, slots=True)
class TextSink:
    """A record a line, as sources of text read it; with `header` the first line names the fields."""

    format: ClassVar[str] = "text"
    folder: str
    separator: str = ","
    header: bool = False
    overwrite: bool = False

    def __post_init__(self) -> None:
        check_separator(self.separator)

    @property
    def suffix(self) -> str:
        return {",": "csv", "\t": "tsv"}.get(self.separator, "txt")

    def refuses(self, type_: DataType) -> str:
        return "files of text hold no lists; write format 'arrow', or map it to text" if type_.is_list else ""


@dataclass(frozen=True, slots=True)
class ArrowSink(AnyType):
    """The IPC stream format of Arrow."""

    format: ClassVar[str] = "arrow"
    folder: str
    overwrite: bool = False
    suffix: ClassVar[str] = "arrows"


@dataclass(frozen=True, slots=True)
class JsonLinesSink(AnyType):
    """JSON Lines, an object a line, as sources of JSON Lines read it."""

    format: ClassVar[str] = "jsonl"
    folder: str
    overwrite: bool = False
    suffix: ClassVar[str] = "jsonl"


@dataclass(frozen=True, slots=True)
class ParquetSink(AnyType):
    """Parquet."""

    format: ClassVar[str] = "parquet"
    folder: str
    overwrite: bool = False
    suffix: ClassVar[str] = "parquet"


#: Formats that outputs are written in, by name; a document that names none is of the first. How a format is written is said in
#: `cep.dataflow.outputs.sink`.
SINK_FORMATS: Mapping[str, type[SinkFiles]] = {each.format: each for each in (TextSink, ArrowSink, JsonLinesSink, ParquetSink)}


def to_json(files: SinkFiles) -> dict[str, Any]:
    return file_documents.to_json(files)


def from_json(document: Any, pointer: str = "") -> SinkFiles:
    """Raises QueryError."""
    files: SinkFiles = file_documents.from_json(document, SINK_FORMATS, pointer)
    return files
