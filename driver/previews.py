"""What a query would answer now: a preview, which the cluster ends by itself a minute after it was asked for last."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

from cep.errors import NotFound
from driver.rest import Rest, path


class Preview:
    """A query that runs beside what runs, with answers of its own. Use it as a context manager.

    Args:
        name: of the query that it is.
        streams: output stream of the query -> the stream in which its answers are.
    """

    def __init__(self, rest: Rest, name: str, streams: Mapping[str, str]) -> None:
        self.rest, self.name, self.streams = rest, name, dict(streams)

    def __repr__(self) -> str:
        return f"Preview({self.name!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rows(self, stream: str | None = None, wait_s: float = 5.0) -> list[dict[str, Any]] | None:
        """The next rows of `stream`, which may be left out where there is but one; none came within `wait_s` seconds where it is empty. The
        first call begins to read: rows of before are not among them. None: the stream has ended.

        Raises:
            NotFound: the preview is over, or has no such stream. QueryFailed, ClusterError: it broke off; says why.
        """
        wanted = "" if stream is None else path(stream).replace("/", "&stream=", 1)
        found = self.rest.get(f"{path('preview', self.name)}/answers?wait={wait_s:g}{wanted}")
        return None if found["ended"] and not found["rows"] else list(found["rows"])

    def close(self) -> None:
        """Deletes it."""
        with suppress(NotFound):
            self.rest.delete(path("queries", self.name))
