"""The manifests of checkpoints, which the leader writes, and what is of no use any more, which it sweeps."""

from __future__ import annotations

import logging
from functools import partial
from urllib.parse import quote

from cep.errors import ClusterError
from cep.world.archive import Archive
from cep.world.store import Store
from orchestrator.state.events import WriteManifest

_LOG = logging.getLogger(__name__)


class Manifests:
    """In `folder`, which has a folder for each deployment."""

    def __init__(self, store: Store, folder: str) -> None:
        self.store, self.folder = store, folder
        self._written: dict[str, str] = {}  # folder of a deployment -> its last manifest, of which it is not known yet that it is named

    def write(self, manifest: WriteManifest) -> str:
        """Why it could not be written; empty: it is there."""
        try:
            self._archive(manifest.folder).write(manifest.name, [manifest.text.encode()])
        except ClusterError as error:
            _LOG.error("%s", error)
            return str(error)
        self._written[manifest.folder] = manifest.name
        return ""

    def confirmed(self) -> None:
        """What names them is written: what came before them is swept. Names begin with the number, in its order."""
        for folder, name in self._written.items():
            self._archive(folder).sweep(partial(_is_older, name.partition(".")[0]))
        self._written.clear()

    def forget(self, query: str) -> None:
        """It is gone: nothing will recover from its checkpoints."""
        prefix = f"{quote(query, safe='')}."
        try:
            folders = [each for each in self.store.names(self.folder) if each.startswith(prefix) and each[len(prefix) :].isdigit()]
        except OSError:
            return
        for each in folders:
            self.clear(each)

    def clear(self, folder: str) -> None:
        """Of a deployment: nothing in it is of use."""
        self._archive(folder).sweep(lambda name: True)

    def _archive(self, folder: str) -> Archive:
        return Archive(self.store, f"{self.folder}/{folder}")


def _is_older(number: str, name: str) -> bool:
    return name[: len(number)] < number
