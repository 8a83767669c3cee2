"""The part of a subscription that tokens speak of: where the program is at each instance, and what it has acknowledged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cep.errors import CepError, ClusterError, QueryError
from cep.transport import wire
from cep.transport.wire import Header
from driver.streams.commands import Send, StreamCommand
from driver.streams.producers import Producer, SubscriptionOptions
from driver.streams.resuming.tokens import Position, ResumeToken


class ResumableSubscription:
    """`id`: what instances know it by; `token`: from where it goes on, if it does."""

    def __init__(self, stream: str, id_: str, options: SubscriptionOptions, token: ResumeToken | None) -> None:
        self.stream, self.id, self.options = stream, id_, options
        self.token, self.holder = token, 0  # so many processes have had it before
        self.query, self.epoch = "", -1  # and which deployment of it
        self.producers: dict[int, Producer] = {}  # by channel
        self.closed = False
        self.broken: CepError | None = None  # why it stopped before its stream had ended

    @property
    def goes_on(self) -> bool:
        """The stream has not ended, as far as is known here; or it is not known yet what puts it out."""
        if self.closed or self.broken is not None:
            return False
        for producer in self.producers.values():
            if producer.open:
                return True
        return not self.query

    @property
    def described(self) -> str:
        """What it reads, for messages."""
        return f"stream {self.stream!r} of query {self.query!r}" if self.query else f"stream {self.stream!r}"

    def fail(self, error: CepError) -> None:
        """Nothing more comes, and the stream has not ended."""
        self.broken = self.broken or error

    def refusal(self, answer: Mapping[str, Any]) -> QueryError | None:
        """Why it cannot be resumed at the query that the orchestrator describes; None: it can, or need not."""
        query = answer["name"]
        if self.options.resumable and not answer.get("recovers", False):
            return QueryError(f"query {query!r} does not recover, so nothing of it is resumed: options(recover=...)", "/resumable")
        if self.token is not None and self.token.epoch != answer["epoch"]:
            return QueryError(f"resume: the token is of another deployment of query {query!r}, which is gone", "/resume")
        return None

    def position(self) -> ResumeToken:
        """Where the program is: behind all that it has been given. Raises QueryError: it can be resumed nowhere; ClusterError: not yet."""
        if not self.options.resumable:
            raise QueryError(f"{self.described} has no tokens: subscribe with resumable=True", "/resumable")
        if not self.query:
            raise ClusterError(f"{self.described} has no token yet, for no query puts it out yet; read first")
        there = sorted(self.producers.values(), key=lambda each: each.instance)
        positions = tuple(Position(each.instance, each.lineage, each.sequence, not each.open) for each in there)
        return ResumeToken(self.query, self.epoch, self.stream, self.id, bool(self.options.event_time), positions)

    def acknowledge(self, token: ResumeToken) -> Sequence[StreamCommand]:
        """The program will not resume from before that token."""
        if (token.query, token.epoch, token.stream, token.id) != (self.query, self.epoch, self.stream, self.id):
            raise QueryError(f"{self.described}: the token is of another subscription", "/token")
        reached = {each.instance: each.following for each in token.positions}
        commands: list[StreamCommand] = []
        for producer in self.producers.values():
            following = reached.get(producer.instance, 0)
            if following > producer.sequence:
                raise QueryError(f"{self.described}: the token is of what has not been read here", "/token")
            if following > producer.acknowledged:
                producer.acknowledged = following
                commands.append(Send(producer.endpoint, Header(wire.ACK, producer.channel, following)))
        return commands

    def full(self, channel: int, first: int) -> None:
        """An instance sends nothing before we acknowledge more than number `first`: have we?"""
        producer = self.producers.get(channel)
        if producer is not None and producer.acknowledged <= first:
            most = f"{self.options.budget_bytes} bytes (budget_bytes)"
            said = f"more than {most} have come since the last token that was acknowledged: acknowledge more often"
            self.fail(ClusterError(f"{self.described}: {said}"))

    @property
    def has_ended(self) -> bool:
        """Had the program taken all when it got the token from which it goes on?"""
        return self.token is not None and all(each.ended for each in self.token.positions)

    @property
    def is_settled(self) -> bool:
        """Has the stream ended, and has the program acknowledged that?"""
        return (
            not self.goes_on and self.broken is None and all(each.acknowledged >= each.sequence for each in list(self.producers.values()))
        )
