"""What authors of connectors write against (docs/connectors.md): `from numa_cep.connectors import RecordSource, Polled, ...`."""

from connectors.contract import (
    AnswerSink,
    AnswerWriter,
    Connector,
    ConnectorError,
    ConnectorOptions,
    Decoded,
    Fenced,
    FileFormat,
    Place,
    Polled,
    RecordReader,
    RecordSource,
    RowsFile,
    Secret,
    ValueFormat,
    library,
)

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
