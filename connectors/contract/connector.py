"""A connector: what an entry point of the group `numa_cep.connectors` names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from connectors.contract.options import ConnectorOptions
from connectors.contract.sink import AnswerSink
from connectors.contract.source import RecordSource


@dataclass(frozen=True, slots=True)
class Connector:
    """A way in, a way out, or both: of each the model of its options, and what makes it of them and of the format, if it has `formats`.

    Args:
        formats: does the document name a format for its values? Else it gives and takes rows, as a database does.
        many: may a value have many rows? Not where records are numbered, or each goes its own way.
    """

    source_options: type[ConnectorOptions] | None = None
    source: Callable[..., RecordSource] | None = None
    sink_options: type[ConnectorOptions] | None = None
    sink: Callable[..., AnswerSink] | None = None
    formats: bool = True
    many: bool = False
