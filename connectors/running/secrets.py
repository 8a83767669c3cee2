"""Secrets: `${env:NAME}` and `${file:PATH}` become what they stand for here, and are taken out of whatever is said."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import ClassVar, TypeVar

from connectors.contract import ConnectorError, ConnectorOptions
from connectors.contract.options import REFERENCE

SHOWN, OWN = "***", "CEP_"
Told = TypeVar("Told", bound=ConnectorOptions)


class Secrets:
    """Those of one connector."""

    everywhere: ClassVar[set[str]] = set()  # those of all connectors of this process

    def __init__(self) -> None:
        self._found: set[str] = set()

    def resolved(self, options: Told) -> Told:
        """With what the references stand for. Raises ConnectorError: one leads nowhere."""
        return options.model_copy(update={name: self._in(value) for name, value in options})

    def _in(self, value: object) -> object:
        if isinstance(value, str):
            return REFERENCE.sub(self._read, value)
        if isinstance(value, dict):
            return {key: self._in(each) for key, each in value.items()}
        return tuple(map(self._in, value)) if isinstance(value, tuple) else value

    def _read(self, found: re.Match[str]) -> str:
        kind, where = found.groups()
        if kind == "env":
            if where.startswith(OWN):
                raise ConnectorError(f"{found[0]}: variables that begin with {OWN} are the cluster's own, and no connector's")
            if where not in os.environ:
                raise ConnectorError(f"{found[0]}: there is no such variable in the environment of the connectors' process")
            return self._kept(os.environ[where])
        try:
            return self._kept(Path(where).read_text().strip())
        except (OSError, ValueError) as error:
            raise ConnectorError(f"{found[0]}: {getattr(error, 'strerror', None) or 'it is no text'}") from None

    def _kept(self, secret: str) -> str:
        if secret:
            self._found.add(secret)
            self.everywhere.add(secret)
        return secret

    def without(self, text: str) -> str:
        """What may be said of it."""
        return _without(text, self._found)


class WithoutSecrets(logging.Formatter):
    """What `form` makes of a record, whichever library logs it, without the secrets of this process."""

    def __init__(self, form: logging.Formatter) -> None:
        super().__init__()
        self.form = form

    def format(self, record: logging.LogRecord) -> str:
        return _without(self.form.format(record), Secrets.everywhere)


def _without(text: str, secrets: Collection[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, SHOWN)
    return text
