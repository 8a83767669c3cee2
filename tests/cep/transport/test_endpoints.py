"""Endpoints: taken apart, put together again, and what is none."""

from __future__ import annotations

import pytest

from cep.errors import ProtocolError
from cep.transport.endpoints import Endpoint, host_of, is_address


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ipc:///run/cep/im-0", Endpoint("/run/cep/im-0")),
        ("link://h2@10.77.0.12:4100/run/cep/h2.im-0", Endpoint("/run/cep/h2.im-0", "h2", "10.77.0.12:4100")),
        ("link://h-3.x@[fe80::1]:1/x@y", Endpoint("/x@y", "h-3.x", "[fe80::1]:1")),
        ("link://h3@/tmp/cep-x/in", Endpoint("/tmp/cep-x/in", "h3")),
    ],
)
def test_an_endpoint_is_what_its_parts_say(text: str, wanted: Endpoint) -> None:
    assert Endpoint.parse(text) == wanted and str(wanted) == text
    assert host_of(text) == wanted.host


@pytest.mark.parametrize(
    "text",
    [
        *("tcp://10.0.0.1:5000", "", "/run/x", "link://h2/run/x", "link://-h@1.2.3.4:5/x", "link://h@1.2.3.4:5"),
        *("ipc://run/x", "ipc:///" + "x" * 107, "ipc:///a\0b", "link://h2@10.0.0.1/x", "link://h2@10.0.0.1:65536/x"),
    ],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(ProtocolError, match=r"^endpoint"):
        Endpoint.parse(text)


def test_only_ones_own_may_leave_the_port_to_the_system() -> None:
    assert Endpoint.parse("link://h@10.0.0.1:0/x", own=True).address == "10.0.0.1:0"
    with pytest.raises(ProtocolError, match=r"expected an address HOST:PORT, got '10\.0\.0\.1:0'"):
        Endpoint.parse("link://h@10.0.0.1:0/x")
    assert all(is_address(text, 0) for text in ("h:0", "h:65535", "[::1]:5"))
    assert not any(is_address(text, 0) for text in ("h:65536", "h", "::1:5"))


def test_in_a_cluster_of_one_machine_no_host_has_a_name() -> None:
    assert host_of("ipc:///run/x") == ""
