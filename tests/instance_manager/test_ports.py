"""The ports of an instance."""

from __future__ import annotations

from cep.dataflow.channel import Inbox
from cep.dataflow.meter import Account
from cep.elements import MIN_TIME
from cep.model.schema import Schema
from cep.plan.channels import ChannelId
from cep.transport.wire import Format
from instance_manager.ports import InPort, Ports

FORMAT = Format(Schema.of({"n": "int64"}))


def test_what_a_sender_was_told_before_it_was_at_home_is_told_again() -> None:
    """Else one that reads files waits for a watermark that its receivers have: they come no further without it."""
    ports = Ports()
    ports.add_in(InPort(ChannelId("q", "e", 0, 0), inbox := Inbox("c", 100), FORMAT, Account(), "ipc:///there"))
    (port,) = ports.remote.values()
    port.told, inbox.credit_due = 7, False
    ports.tell_anew()
    assert port.told == MIN_TIME and inbox.credit_due
