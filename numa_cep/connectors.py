"""What authors of connectors write against (docs/connectors.md): `from numa_cep.connectors import RecordSource, Polled, ...`."""

from connectors.contract import (
    AnswerSink,
    AnswerWriter,
    Connector,
    ConnectorError,
    ConnectorOptions,
    Decoded,
    Fenced,
    Place,
    Polled,
    RecordReader,
    RecordSource,
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
    "Place",
    "Polled",
    "RecordReader",
    "RecordSource",
    "Secret",
    "ValueFormat",
    "library",
]
