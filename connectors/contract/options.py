"""What a connector is told: a pydantic model, so that a document with a mistake in it is refused with the mistake's place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import pyarrow as pa
from pydantic import AfterValidator, BaseModel, ConfigDict

from connectors.contract.errors import ConnectorError

REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")


def _reference(text: str) -> str:
    if not REFERENCE.search(text):
        raise ValueError("a secret does not stand in a document: say ${env:NAME} or ${file:PATH}, read in the connector's process")
    return text


Secret = Annotated[str, AfterValidator(_reference)]
"""A text that has `${env:NAME}` or `${file:PATH}` in it. The reader or writer gets the options with the secret itself."""


class ConnectorOptions(BaseModel):
    """What a document says below `from` or `to`, beside `connector` and what is the format's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def folders(self) -> Sequence[tuple[str, str]]:
        """Of each option that says where on this machine's disk it reads or writes: its name and the place. A cluster lets connectors reach
        what its queries may (`--data`)."""
        return ()

    def wanted_columns(self) -> Sequence[tuple[str, str]]:
        """Of a sink: each option that names a column of its rows, and the column. Where the stream is known, one that it has not is
        refused when it is declared, or its query deployed."""
        return ()

    def written(self, schema: pa.Schema) -> pa.Schema:
        """Of a sink: which columns its format is to hold, of rows with those. Raises ValueError: there are none such."""
        return schema


def library(module: str, extra: str) -> Any:
    """A module that comes with `pip install numa-cep[extra]`, loaded where it is used. Raises ConnectorError: it is not here."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConnectorError(f"{module} is not installed here ({error}): pip install 'numa-cep[{extra}]'") from None
