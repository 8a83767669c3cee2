"""What is asked of a subscription, and the instances that put its stream out, as it knows each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cep.elements import MIN_TIME
from cep.errors import QueryError
from cep.model.limits import HELD_BYTES_MAX, KEEP_S_MAX, KEEP_S_MIN, checked
from cep.plan.channels import ChannelId
from cep.transport.wire import Header

WINDOW_BYTES = 16 << 20  # what may be under way to us per producing instance
BUDGET_BYTES = 64 << 20

Message = tuple[Header, Any]


@dataclass(frozen=True)
class SubscriptionOptions:
    """As `driver.cluster.Running.subscribe` has them. `window_bytes`: what each instance may have sent us that we have not taken;
    `apart`: small batches are not put together on their way, so that each has a name (`Subscription.next_named`)."""

    on_slow: str = "block"
    keep_s: float = 60.0
    event_time: bool | str = False
    budget_bytes: int = BUDGET_BYTES
    resumable: bool = False
    window_bytes: int = WINDOW_BYTES
    apart: bool = False

    def __post_init__(self) -> None:
        if self.on_slow not in ("block", "drop"):
            raise QueryError(f"on_slow: expected 'block' or 'drop', got {self.on_slow!r}", "/on_slow")
        if self.resumable and self.on_slow == "drop":
            raise QueryError("on_slow: 'drop' loses rows, and a subscription that is resumed loses none: expected 'block'", "/on_slow")
        checked(self.keep_s, "keep_s", KEEP_S_MIN, KEEP_S_MAX, "/keep_s")
        checked(self.budget_bytes, "budget_bytes", 1, HELD_BYTES_MAX, "/budget_bytes")


class Producer:
    """One instance that produces the stream, and our channel from it."""

    def __init__(
        self, document: Mapping[str, Any], query: str, stream: str, id_: str, attempt: int = 0, holder: int = 0, sequence: int = 0
    ) -> None:
        self.instance, self.epoch = document["instance"], document["epoch"]
        self.query, self.stream, self.id, self.holder = query, stream, id_, holder
        self.sequence = self.acknowledged = sequence
        self.lineage = ""  # of its numbers, as it says
        self.go_to(str(document["endpoint"]), attempt)
        self.process = 0  # which it is in, once it has said so
        self.since = 0  # heartbeats later than this one find us there
        self.open = True
        self.ahead: dict[int, Message] | None = None  # since it has moved: what has overtaken what came from its old place
        self.shown: pa.Schema | None = None  # as what the batches are read that it sends
        self.selected: tuple[str, ...] | None = None  # columns that are for the program, if not all are
        self.told = False  # its query tells its answers at once
        self.counted = attempt  # since when its numbers count
        self.mark = 0  # of the last checkpoint that it has passed

    def go_to(self, endpoint: str, attempt: int) -> None:
        """It is there, made for that attempt of its query: on a channel of its own, with credit that begins anew and numbers that go on."""
        self.endpoint, self.attempt = endpoint, attempt
        outlet = ChannelId.outlet(self.query, self.stream, self.instance, self.epoch, attempt)
        self.outlet, self.channel = outlet.id, outlet.to(self.id, self.holder).id
        self.consumed = self.granted = 0
        self.replaced = False
        self.promised = MIN_TIME  # by its last mark, of that attempt
