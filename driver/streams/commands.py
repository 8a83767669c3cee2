"""What the cores of publishers and subscriptions want done outside: values, which the data plane obeys in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cep.transport.ipc import MessageLayout
from cep.transport.wire import Header


class Send(NamedTuple):
    """A message to an instance manager."""

    endpoint: str
    header: Header
    body: Any = None


class Listen(NamedTuple):
    """What comes on the channel is for this core, and our heartbeats go to `endpoint`. One that was elsewhere goes on here."""

    endpoint: str
    channel: int


class Leave(NamedTuple):
    """The channel is over."""

    channel: int


class Coalesce(NamedTuple):
    """Batches of the channel may come as one where several have come."""

    channel: int
    layout: MessageLayout | None


StreamCommand = Send | Listen | Leave | Coalesce
NOTHING: Sequence[StreamCommand] = ()
