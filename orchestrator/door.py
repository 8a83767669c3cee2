"""The small-client data doors of REST: rows as JSON, for clients without ZeroMQ.

`DataDoor` is what REST needs of a data-plane client; `ClosedDoor` stands in where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from cep.errors import ClusterError

Row = dict[str, Any]


class DataDoor(Protocol):
    """Publishes to and reads from streams on behalf of REST clients."""

    async def publish(self, stream: str, rows: Sequence[Row], end: bool) -> int:
        """Sends rows as one publisher of the stream; `end` closes it after them. How many were taken.

        Raises:
            NotFound, DataError: there is no such stream; the rows are not of its schema.
        """
        ...

    async def answers(self, stream: str, most: int, wait_s: float) -> tuple[list[Row], bool]:
        """Up to `most` rows that no call gave before, waiting at most `wait_s` for the first; and whether the stream has ended.

        Raises:
            NotFound, QueryFailed, QueryStopped: there is no such stream; its query did not end well.
        """
        ...

    async def close(self) -> None:
        """Lets go of everything."""
        ...


class NoDoor(ClusterError):
    """This orchestrator has no data plane of its own."""


class ClosedDoor:
    """Says that there is no way through."""

    async def publish(self, stream: str, rows: Sequence[Row], end: bool) -> int:
        raise NoDoor(f"stream {stream!r}: this orchestrator takes no records over REST; use the driver")

    async def answers(self, stream: str, most: int, wait_s: float) -> tuple[list[Row], bool]:
        raise NoDoor(f"stream {stream!r}: this orchestrator gives no answers over REST; use the driver")

    async def close(self) -> None:
        pass
