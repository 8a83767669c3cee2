"""What the author of a connector writes against. Nothing of the engine is imported here: the standard library, Arrow and pydantic.

A `RecordSource` has partitions, each read by a `RecordReader`; an `AnswerSink` is written by an `AnswerWriter`. What a class promises
(`numbered`, `keeps_tokens`) it has to answer: a missing answer is a type error.
"""

from connectors.contract.connector import Connector
from connectors.contract.errors import ConnectorError
from connectors.contract.formats import Decoded, FileFormat, RowsFile, ValueFormat
from connectors.contract.options import ConnectorOptions, Secret, library
from connectors.contract.sink import AnswerSink, AnswerWriter, Fenced
from connectors.contract.source import Place, Polled, RecordReader, RecordSource

__all__ = [
    "AnswerSink",
    "AnswerWriter",
    "Connector",
    "ConnectorError",
    "ConnectorOptions",
    "Decoded",
    "Fenced",
    "FileFormat",
    "Place",
    "Polled",
    "RecordReader",
    "RecordSource",
    "RowsFile",
    "Secret",
    "ValueFormat",
    "library",
]
