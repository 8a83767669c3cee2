"""Is there room to write down what is asked for? ZooKeeper ends where its disk is full, so new queries are refused before it is.

Its data are in the cluster's home, or, in containers, beside it; a disk of its own that is full shows only as a ZooKeeper that is away.
"""

from __future__ import annotations

from cep.errors import DiskFull
from cep.model.limits import ROOM_BYTES_MIN
from cep.world.store import Store


def why_no_room(store: Store, home: str) -> str:
    """Why nothing new is taken; empty: it is."""
    try:
        free = store.free_bytes(home)
    except OSError as error:
        return f"the cluster's home {home} cannot be looked at: {error.strerror}"
    if free >= ROOM_BYTES_MIN:
        return ""
    return (
        f"the disk of the cluster's home {home} is full: {free:,} bytes are free, and ZooKeeper needs {ROOM_BYTES_MIN:,}; "
        "no new query is taken until there is room; those that run go on"
    )


def check_room(store: Store, home: str) -> None:
    """Raises DiskFull."""
    if why := why_no_room(store, home):
        raise DiskFull(why)
