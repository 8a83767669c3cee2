"""What a Nexmark query is, and the streams that queries read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from numa_cep import Query, stream

DISORDER = "4s"
"""As the suite has it: the watermark is 4 s behind the greatest time, though events come in order."""

EVER = "36500d"
"""A window or an interval that holds everything, from 1970 on."""

ANSWERS = "answers"
"""The output of every query."""

SIDE_ROWS = 10_000

_BID = {
    "auction": int,
    "bidder": int,
    "price": int,
    "channel": str,
    "url": str,
    "dateTime": "timestamp[ms]",
    "extra": str,
}

PERSON = stream(
    "person",
    {
        "id": int,
        "name": str,
        "emailAddress": str,
        "creditCard": str,
        "city": str,
        "state": str,
        "dateTime": "timestamp[ms]",
        "extra": str,
    },
    event_time="dateTime",
    disorder=DISORDER,
)
AUCTION = stream(
    "auction",
    {
        "id": int,
        "itemName": str,
        "description": str,
        "initialBid": int,
        "reserve": int,
        "dateTime": "timestamp[ms]",
        "expires": "timestamp[ms]",
        "seller": int,
        "category": int,
        "extra": str,
    },
    event_time="dateTime",
    disorder=DISORDER,
)
BID = stream("bid", _BID, event_time="dateTime", disorder=DISORDER)

ARRIVING = stream("arriving", _BID)
"""The bids, stamped as they arrive."""

STREAMS = {each.name: each for each in (PERSON, AUCTION, BID, ARRIVING)}
ROWS_OF = {"arriving": "bid"}
"""Stream -> whose rows it has, where that is another one."""


@dataclass(frozen=True)
class Given:
    """What queries are given.

    Args:
        folder: where q13's side input lies and q10's files go.
        open_ms_max: how long an auction is open at most.
        checked: the answers will be compared; a query may put out what the witness has to know.
    """

    folder: Path
    open_ms_max: int
    checked: bool = False

    @property
    def side_input(self) -> Path:
        """Lines `key,value`, of q13."""
        return self.folder / "side_input.csv"

    @property
    def files(self) -> Path:
        """The folder of q10's files."""
        return self.folder / "q10"


@dataclass(frozen=True)
class Nexmark:
    """A query.

    Args:
        what: what it asks, for a reader.
        reads: the streams, by name.
        build: the query with our builder.
        sql: the same in SQL, over the streams' tables, which have the number `n` of each event besides.
        files: the answers go to files, and there is no subscriber.
    """

    name: str
    what: str
    reads: tuple[str, ...]
    build: Callable[[Given], Query]
    sql: str
    files: bool = False
