"""The manifests of checkpoints, which the leader writes, and what is of no use any more, which it sweeps.

Another may lead already when this one does something, and knows it only when it writes to ZooKeeper, or not at all until it has done it.
So it removes nothing before that is written which makes it useless, and nothing that can be of a later deployment: each has an epoch of its
own, also where a cluster before this one has left its checkpoints.
"""

from __future__ import annotations

import logging
from functools import partial

from cep.errors import ClusterError
from cep.model.limits import DIGITS_MAX, EPOCH_MAX
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
        self._over: dict[str, int] = {}  # query -> the last epoch of which nothing is of use, perhaps not written yet

    def last_epoch(self) -> int:
        """The greatest of all deployments of which there is a folder; 0: of none."""
        found = (name.rpartition(".")[2] for name in self._folders())
        epochs = [int(each) for each in found if each.isascii() and each.isdecimal() and len(each) <= DIGITS_MAX]
        return max((epoch for epoch in epochs if epoch <= EPOCH_MAX // 2), default=0)  # a greater one is not ours

    def write(self, manifest: WriteManifest) -> str:
        """Why it could not be written; empty: it is there."""
        try:
            self._archive(manifest.folder).write(manifest.name, [manifest.text.encode()])
        except ClusterError as error:
            _LOG.error("%s", error)
            return str(error)
        self._written[manifest.folder] = manifest
        return ""

    def forget(self, query: str, epoch: int) -> None:
        """Nothing will recover from the checkpoints of its deployments up to that one, as soon as this is written."""
        self._over[query] = epoch

    def confirmed(self) -> None:
        """What was said is written: manifests before those that are named are swept, and pieces that theirs do not need. Names begin with
        the number, in its order. And what was to be forgotten goes."""
        for folder, manifest in self._written.items():
            self._archive(folder).sweep(partial(_is_of_no_use, manifest.name, str(manifest.oldest)))
        for query, epoch in self._over.items():
            stem = stem_of(query)
            for folder in (each for each in self._folders() if each.startswith(stem)):
                if (number := folder[len(stem) :]).isdecimal() and int(number) <= epoch:
                    self._archive(folder).sweep(lambda name: True)
        self.drop()

    def drop(self) -> None:
        """Another leader may decide otherwise what is not written."""
        self._written.clear()
        self._over.clear()

    def _folders(self) -> list[str]:
        try:
            return self.store.names(self.folder)
        except OSError:
            return []

    def _archive(self, folder: str) -> Archive:
        return Archive(self.store, f"{self.folder}/{folder}")


def _is_of_no_use(manifest: str, oldest: str, name: str) -> bool:
    if name.endswith(MANIFEST):
        return name < manifest
    return name[: len(oldest)] < oldest
