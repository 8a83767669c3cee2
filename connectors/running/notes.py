"""What a connector has to know when it comes again, beside the cluster: small files, each replaced as a whole.

Of a source whose records are counted: at which place record number n was. It is written before the rows from there on are sent, so what
the cluster has accepted is never behind it. Of a sink that keeps no token: the token, once the rows before it are there.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cep.model.limits import name_in_files
from connectors.contract import ConnectorError


class Notes:
    """In a folder, which is made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str) -> dict[str, Any] | None:
        """Raises ConnectorError: it is there, and makes no sense; nothing is begun anew for that."""
        try:
            found = json.loads(self._path(name).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ConnectorError(f"{self._path(name)} cannot be read, so it is not known where {name!r} was: {error}") from None
        if not isinstance(found, dict):
            raise ConnectorError(f"{self._path(name)} makes no sense, so it is not known where {name!r} was")
        return found

    def write(self, name: str, value: dict[str, Any], lasting: bool = False) -> None:
        """`lasting`: it survives a loss of power too. Raises ConnectorError."""
        path = self._path(name)
        new = path.with_suffix(".new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with new.open("wb") as file:
                file.write(json.dumps(value).encode())
                if lasting:
                    file.flush()
                    os.fsync(file.fileno())
            new.replace(path)
        except OSError as error:
            raise ConnectorError(f"{path}: {error.strerror}") from None

    def _path(self, name: str) -> Path:
        return self.folder / f"{name_in_files(quote(name, safe=''))}.json"
