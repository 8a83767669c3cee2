"""The rings of this process: where its publishers keep what they send to queries that recover (`cep.world.rings`)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cep.model.limits import RING_BYTES_MAX
from cep.world.rings import Owner, Ring, is_here

LOG = logging.getLogger(__name__)


class OwnRings:
    """One in each folder that readers name, of whichever clusters they are; for all threads. `name`: no other process's is called so."""

    def __init__(self, name: str, owner: Callable[[], Owner] = Owner.ours) -> None:
        self._name, self._owner, self._lock, self._closed = name, owner, threading.Lock(), False
        self._there: dict[str, Ring] = {}

    def at(self, place: Mapping[str, Any]) -> Ring | None:
        """The one in the folder that another process describes so; None: we do not see it, or may not write there."""
        folder = str(place.get("folder"))
        with self._lock:
            if folder not in self._there and not self._closed and is_here(place):
                try:
                    self._there[folder] = Ring(Path(folder), self._name, self._owner(), RING_BYTES_MAX)
                except OSError as error:
                    LOG.warning("%s: no ring can be made there: %s", folder, error)
            return self._there.get(folder)

    def rest(self) -> None:
        """Now and then: lets go of memory that was not needed."""
        with self._lock:
            for ring in self._there.values():
                ring.rest()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for ring in self._there.values():
                ring.close()
