"""Every error a user can meet. The class says whose fault it is; the message says what, which one, expected, got, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def escaped(name: str) -> str:
    """`name` as one step of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def meant(name: object, known: Iterable[str]) -> str:
    """What a message says behind a name that is not known: the known one that is nearest, if one is near."""
    near = get_close_matches(name, list(known), n=1) if isinstance(name, str) else []
    return f" (did you mean {near[0]!r}?)" if near else ""


def counted(count: int, what: str) -> str:
    """ "1 row", "2 rows", "1,000 rows"."""
    return f"{count:,} {what}" + "s" * (count != 1)


class CepError(Exception):
    """Base of all errors of this project."""


class QueryError(CepError):
    """Yours: the document or the builder call describes no valid query. `pointer` is a JSON pointer (RFC 6901) into it."""

    def __init__(self, message: str, pointer: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.pointer = pointer

    def under(self, prefix: str) -> QueryError:
        """The same error seen from a document that holds this one at `prefix`."""
        return QueryError(self.message, prefix + self.pointer)


class DataError(CepError):
    """Yours: rows or a batch do not fit the stream they were sent to. Nothing of the batch was taken. `row` and `column`: where the first
    of what does not fit is, if it is known."""

    def __init__(self, message: str, row: int | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.row, self.column = row, column

    @property
    def pointer(self) -> str:
        """A JSON pointer into the rows as a list of objects; empty: they are not known."""
        if self.row is None:
            return ""
        return f"/{self.row}" if self.column is None else f"/{self.row}/{escaped(self.column)}"


class PlacementError(CepError):
    """Yours: the plan asks for more (instance managers, nodes) than the cluster has; says how many of each."""


class ClusterError(CepError):
    """The surroundings': a part of the cluster cannot start, cannot be reached, or is gone."""


class ReplayMismatch(ClusterError):
    """Yours, mostly: a query that tells its answers at once has recovered, and an answer that it had told was not made again. It reads
    something else than its input: a function of yours that is not one of its arguments alone, a file that was changed."""


class DiskFull(ClusterError):
    """The surroundings': the disk on which the cluster writes down what it has to do is full, so nothing new is taken."""


class TooLarge(ClusterError):
    """Yours: what the cluster would have to write down of it is more than a node of ZooKeeper holds."""


class NotFound(CepError):
    """Yours: nothing of that name is there."""


class Conflict(CepError):
    """Yours: something of that name is there already, and it is different."""


class Unauthorized(CepError):
    """Yours: no token, or none that this cluster knows."""


class Forbidden(CepError):
    """Yours: the token is good, and its roles do not allow this; names the role that is needed."""


class StreamEnded(CepError):
    """The stream's queries have ended and what was unread is gone; `rows` counts what came out while they ran."""

    def __init__(self, stream: str, rows: int) -> None:
        super().__init__(
            f"stream {stream!r} has ended after {counted(rows, 'row')}; subscribe before its query ends to read them: "
            "deploy(query, start=False), subscribe, start()"
        )
        self.stream = stream
        self.rows = rows


class QueryStopped(CepError):
    """Closed by a user's `stop`: windows that were open did not fire."""


class QueryFailed(CepError):
    """Broken: a running query failed. Names query, subquery, instance and cause."""

    def __init__(self, query: str, subquery: str, instance: int | None, cause: str) -> None:
        where = (f" in subquery {subquery!r}" if subquery else "") + ("" if instance is None else f" instance {instance}")
        super().__init__(f"query {query!r} failed{where}: {cause}")
        self.query, self.subquery, self.instance, self.cause = query, subquery, instance, cause


class StateLimitExceeded(CepError):
    """The state of an operator outgrew its limit; names operator, window and largest keys."""


class ProtocolError(CepError):
    """Our bug or a broken peer: a channel carried what its grammar forbids."""


class MessagesLost(ProtocolError):
    """There is a gap in a channel's sequence numbers: what was in between was not taken, and no other process knows of it."""
