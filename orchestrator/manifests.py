"""The manifests of checkpoints, which the leader writes, and what is of no use any more, which it sweeps."""

from __future__ import annotations

import logging
from functools import partial

from cep.errors import ClusterError
from cep.plan.checkpoints import MANIFEST, stem_of
from cep.world.archive import Archive
from cep.world.store import Store
from orchestrator.state.events import WriteManifest

_LOG = logging.getLogger(__name__)


class Manifests:
    """In `folder`, which has a folder for each deployment."""

    def __init__(self, store: Store, folder: str) -> None:
        self.store, self.folder = store, folder
        self._written: dict[str, WriteManifest] = {}  # by folder of a deployment: its last, perhaps not named yet

    def write(self, manifest: WriteManifest) -> str:
        """Why it could not be written; empty: it is there."""
        try:
            self._archive(manifest.folder).write(manifest.name, [manifest.text.encode()])
        except ClusterError as error:
            _LOG.error("%s", error)
            return str(error)
        self._written[manifest.folder] = manifest
        return ""

    def confirmed(self) -> None:
        """What names them is written: manifests before them are swept, and pieces that theirs do not need. Names begin with the number, in
        its order."""
        for folder, manifest in self._written.items():
            self._archive(folder).sweep(partial(_is_of_no_use, manifest.name, str(manifest.oldest)))
        self._written.clear()

    def forget(self, query: str) -> None:
        """It is gone: nothing will recover from its checkpoints."""
        prefix = stem_of(query)
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


def _is_of_no_use(manifest: str, oldest: str, name: str) -> bool:
    if name.endswith(MANIFEST):
        return name < manifest
    return name[: len(oldest)] < oldest
