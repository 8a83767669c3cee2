"""Where answers go to."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from connectors.contract.errors import ConnectorError


class Fenced(ConnectorError):
    """Another writer of the same connector has come since, with a greater epoch: this one is not to write any more."""


class AnswerWriter(ABC):
    """Writes what one connector is given. All calls come from one thread; each may raise ConnectorError, after which it is aborted."""

    def token(self) -> str | None:
        """Where the answers are behind which the last `commit` was, of whichever writer of this connector. Where the sink does not keep
        tokens, None."""
        return None

    @abstractmethod
    def write(self, rows: pa.RecordBatch, origin: str) -> None:
        """Takes rows over; they need not be there before `commit`. `origin-0`, `origin-1`, … name the rows: a row that is written once
        more, after a kill, has the same name, and no other row ever has it. It is the key by which what has come twice is known."""

    @abstractmethod
    def commit(self, token: str) -> None:
        """All that was written is there when this returns, and stays. A sink that keeps tokens keeps this one in the same transaction, so
        that rows and token are both there or neither. Raises Fenced."""

    @abstractmethod
    def abort(self) -> None:
        """What was written and not committed is dropped, as far as it can be."""

    @abstractmethod
    def close(self) -> None:
        """Nothing more is written; what was not committed is dropped as by `abort`."""


class AnswerSink(ABC):
    """What its options describe."""

    @property
    @abstractmethod
    def keeps_tokens(self) -> bool:
        """Does it keep the token in the transaction of the rows? Then answers of a query that recovers are there exactly once. Else the
        token is kept after them: at least once, and a row's origin tells what has come twice."""

    @property
    def commit_s(self) -> float:
        """So often what was written is committed. It is so much later that rows are there, and so much work is done twice after a kill."""
        return 0.2

    @property
    def commit_bytes(self) -> int:
        """Or as soon as so much was written, as Arrow has it."""
        return 8 << 20

    @abstractmethod
    def open(self, name: str, epoch: int) -> AnswerWriter:
        """A writer for the connector of that name. `epoch` is greater with every one that is opened: where the sink can, those before are
        fenced off. Raises Fenced: there was a greater one."""
