"""A whole cluster of two hosts in network namespaces, with tokens, TLS and CURVE, is attacked by a stranger and by a token that may only
read one stream, while others publish and read: their answers are exact, and what is refused is counted.

Tests `instance_manager/clients/rights.py`, `cep/transport/switchboard.py`, `cep/transport/accounts.py`.
"""

from __future__ import annotations

import json
import re
import resource
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import zmq

from benchmarks.faults.hosts import HostCluster, host_cluster
from benchmarks.faults.namespaces import HostNetwork
from cep.elements import MIN_TIME
from cep.errors import CepError, ClusterError, Unauthorized
from cep.plan.channels import ChannelId, publisher_channel
from cep.service.access import Role
from cep.service.token_file import add_token, remove_token
from cep.transport import frames, wire, zeromq
from cep.transport.curve import KeyPair, new_pair
from cep.transport.ends import hello_of, new_incarnation
from cep.transport.frames import HELLO, Frame
from cep.transport.keyring import Keyring
from cep.transport.wire import Header
from driver import Cluster, Forbidden, Publisher, Running, Subscription
from tests.support.host_network import net
from tests.support.visits import Answer, answers, expected, rows, visits, windows
from tests.support.waiting import HANG_S, until

__all__ = ["net"]  # a fixture
NETWORK = "at"
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # six processes on two hosts

SESSION_S = 10.0
CONNECTIONS = 5_000  # at each door
MiB = 1 << 20


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokens") / "tokens"


@pytest.fixture(scope="module")
def names(tokens: Path) -> dict[str, str]:
    roles = {
        "victim": ("publish:victim.visits", "subscribe:victim.per_ip", "read"),
        "reader": ("subscribe:victim.per_ip", "read"),
        "gone": ("read",),
    }
    return {name: add_token(tokens, name, [Role.parse(role) for role in own], "now").text for name, own in roles.items()}


@pytest.fixture(scope="module")
def cluster(net: HostNetwork, tokens: Path, names: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostCluster]:
    """Its processes start with as few descriptors as most systems give them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    with host_cluster(net, tmp_path_factory.mktemp("keys"), SESSION_S, hosts=2, first=("--tokens", str(tokens))) as made:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        yield made


@pytest.fixture(scope="module")
def boss(cluster: HostCluster) -> Iterator[Cluster]:
    with cluster.client("boss") as made:
        yield made


class Victim:
    """Rows go and answers come all the time."""

    def __init__(self, boss: Cluster, client: Cluster) -> None:
        self.boss, self.running = boss, boss.deploy(windows("victim", visits("victim"), parallelism=2))
        self.subscription: Subscription = client.subscribe("victim.per_ip")
        self.publisher: Publisher = client.publisher("victim.visits", name="p")
        self.found: Counter[Answer] | None = None
        self.error: CepError | None = None
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        self.sent: list[dict[str, Any]] = []
        self.send()

    def _read(self) -> None:
        try:
            self.found = answers(self.subscription)
        except CepError as error:
            self.error = error

    def send(self, count: int = 1000) -> None:
        some = rows(count, start=len(self.sent))
        self.publisher.send(some)
        self.sent += some

    def finish(self) -> None:
        self.send()
        self.publisher.close()
        self.reader.join(HANG_S)
        assert self.error is None and self.found == expected(self.sent)
        self.running.delete()


@pytest.fixture
def victim(cluster: HostCluster, boss: Cluster, names: dict[str, str]) -> Iterator[Victim]:
    with cluster.client("home", names["victim"]) as client:
        made = Victim(boss, client)
        yield made
        made.finish()


class Aims:
    """What an attacker knows, or guesses: everything but the keys of others."""

    def __init__(self, boss: Cluster, running: Running) -> None:
        self.managers = {im["id"]: im["endpoint"] for im in boss.instance_managers()}
        status = running.status()
        self.epoch = epoch = status["epoch"]
        self.entries = [ChannelId.entry("victim", "victim.visits", i, epoch).id for i in range(2)]
        self.outlets = [ChannelId.outlet("victim", "victim.per_ip", i, epoch).id for i in range(2)]
        self.publishers = [publisher_channel(entry, "p") for entry in self.entries]


def strays(boss: Cluster) -> float:
    """Messages that instance managers have refused."""
    return sum(float(value) for value in re.findall(r"^cep_process_strays_total\S* (\S+)$", boss.metrics(), re.M))


@pytest.fixture
def reader(cluster: HostCluster, names: dict[str, str], victim: Victim) -> Iterator[Cluster]:
    """It reads, as it may: so it has a key, and links with both hosts."""
    with cluster.client("elsewhere", names["reader"]) as client:
        client.subscribe("victim.per_ip")
        yield client


def test_who_may_only_read_can_do_nothing_else_on_the_data_plane(victim: Victim, boss: Cluster, reader: Cluster) -> None:
    aims, at = Aims(boss, victim.running), reader.data_plane().endpoint
    opening = {"publisher": "mine", "endpoint": at, "sent_until": MIN_TIME}
    closing = {"last": True, "others": [], "endpoint": at}
    subscribing = {"id": victim.subscription.core.id, "endpoint": at}
    said: list[tuple[Header, bytes]] = []
    for entry, outlet, channel in zip(aims.entries, aims.outlets, aims.publishers, strict=True):
        said += [(Header(wire.OPEN, entry), wire.to_json(opening)), (Header(wire.OPEN, entry), wire.to_json(opening | {"publisher": "p"}))]
        said += [(Header(kind, channel, sequence), b"x") for kind in (wire.BATCH, wire.WATERMARK, wire.END) for sequence in (0, 1, 1 << 40)]
        said += [(Header(wire.CLOSE, channel), wire.to_json(closing | {"entry": entry}))]
        said += [(Header(wire.SUBSCRIBE, outlet), wire.to_json(subscribing))]
        said += [(Header(wire.SUBSCRIBE, outlet), wire.to_json(subscribing | {"id": "mine", "reader": "victim"}))]
    said += [
        (Header(wire.BEAT, wire.name_id(endpoint)), endpoint.encode())
        for endpoint in (victim.publisher.core.endpoint, *aims.managers.values())
    ]
    inner = [ChannelId("victim", edge, i, j, aims.epoch).id for edge in ("SQ1>SQ2", "0", "1") for i in range(2) for j in range(2)]
    said += [(Header(kind, channel), b"{}") for channel in inner for kind in (wire.BATCH, wire.END, wire.BARRIER, wire.FAIL, wire.CREDIT)]
    said += [
        (Header(kind, 1), b"{}")
        for kind in (wire.OPENED, wire.CLOSED, wire.SUBSCRIBED, wire.REPORT, wire.REDIRECT, wire.UNKNOWN, wire.COVERED)
    ]
    before = strays(boss)
    for endpoint in aims.managers.values():
        for header, body in said:
            reader.data_plane().send(endpoint, header, body)
    at_both = len(said) * len(aims.managers)
    until(lambda: strays(boss) >= before + 0.5 * at_both)  # what names an entry of the other host is answered with UNKNOWN
    victim.send()
    with pytest.raises(Forbidden):
        reader.publisher("victim.visits")


class Stranger:
    """A connection that speaks ZeroMQ to the link port of the first instance manager."""

    def __init__(self, address: str, keyring: Keyring | None, endpoint: str = "") -> None:
        self.context, self.number = zmq.Context(), new_incarnation()
        self.endpoint = endpoint or f"link://away@/{self.number:x}"
        self.dealer = zeromq.make_dealer(self.context, keyring)
        self.dealer.connect(f"tcp://{address}")
        self.call()

    def call(self) -> None:
        self.dealer.send(Frame(HELLO, self.number, 0, limit=1 << 30).pack() + hello_of(self.endpoint))

    def hears(self, seconds: float = 2.0) -> bytes | None:
        return self.dealer.recv() if self.dealer.poll(round(1000 * seconds)) else None

    def close(self) -> None:
        self.context.destroy(linger=0)


def address(endpoint: str) -> str:
    return endpoint.partition("@")[2].partition("/")[0]


@pytest.fixture
def stranger() -> Iterator[Callable[..., Stranger]]:
    with ExitStack() as made:

        def make(*arguments: Any) -> Stranger:
            one = Stranger(*arguments)
            made.callback(one.close)
            return one

        yield make


def met(stranger: Callable[..., Stranger], at: str, keyring: Keyring) -> tuple[Stranger, bytes]:
    """One that has been welcomed, and how. A key that was just handed in may be refused, and a DEALER does not try again."""

    def welcomed() -> tuple[Stranger, bytes] | None:
        one = stranger(at, keyring)
        return None if (heard := one.hears()) is None else (one, heard)

    found = until(welcomed, HANG_S)
    assert found is not None
    return found


def handed_in(client: Cluster) -> tuple[KeyPair, Keyring]:
    pair = new_pair()
    members = client.register_key(pair.public, 600)["members"]
    return pair, Keyring(pair.public, pair.secret.text, str(members))


def test_without_a_key_that_is_known_nothing_is_heard(
    victim: Victim, boss: Cluster, cluster: HostCluster, names: dict[str, str], tokens: Path, stranger: Callable[..., Stranger]
) -> None:
    """No CURVE, a key that was not handed in, the members' key of before, the key of a token that is gone."""
    at, own = address(next(iter(Aims(boss, victim.running).managers.values()))), new_pair()
    members = str(boss.rest.get("/keys/members")["members"])
    with cluster.client("x", names["gone"]) as client:
        _, going = handed_in(client)
    met(stranger, at, going)
    before = json.loads(Path(cluster.ca).with_name("members.key").read_text())
    assert before["public"] == members
    assert stranger(at, None).hears() is None
    assert stranger(at, Keyring(own.public, own.secret.text, members)).hears() is None
    remove_token(tokens, "gone")
    members = boss.rotate_members_key()
    victim.send()
    _, fresh = handed_in(boss)
    met(stranger, at, fresh)
    until(lambda: stranger(at, Keyring(going.public, going.secret, members)).hears() is None, HANG_S)  # a second later
    assert stranger(at, Keyring(before["public"], before["secret"], members)).hears() is None


def test_a_client_is_no_member_whatever_it_says(
    victim: Victim, boss: Cluster, names: dict[str, str], cluster: HostCluster, stranger: Callable[..., Stranger]
) -> None:
    """The endpoints of instance managers, of the victim, and one on the host itself are not to be had; versions are looked at."""
    managers = list(Aims(boss, victim.running).managers.values())
    with cluster.client("x", names["reader"]) as client:
        _, keyring = handed_in(client)
    at = address(managers[0])
    one, welcomed = met(stranger, at, keyring)
    welcome = frames.read(welcomed)[0]
    for taken in (*managers, victim.publisher.core.endpoint, "link://h1@/tmp/x", "ipc:///tmp/x"):
        assert stranger(at, keyring, taken).hears(1.0) is None, taken
    one.dealer.send(b"\x02\x00" + bytes(100))
    found = one.hears(HANG_S)
    assert found is not None and b"expected version 1.x, got 2.0" in found
    newer = bytearray(Frame(frames.PROBE, one.number, welcome.source, limit=1 << 30).pack())
    newer[1], newer[4:6] = 1, (len(newer) + 8).to_bytes(2, "little")
    one.dealer.send(bytes(newer) + b"unknown!")
    assert frames.read(one.hears(HANG_S))[0].kind == frames.ACK
    one.call()  # once more
    assert frames.read(one.hears(HANG_S))[0].kind == frames.WELCOME


def test_frames_without_end_do_not_fill_the_memory(
    victim: Victim, boss: Cluster, names: dict[str, str], cluster: HostCluster, stranger: Callable[..., Stranger]
) -> None:
    managers = boss.instance_managers()
    with cluster.client("x", names["reader"]) as client:
        _, keyring = handed_in(client)
    one, _ = met(stranger, address(managers[0]["endpoint"]), keyring)
    before = memory(managers)
    one.dealer.send(bytes(9 * MiB))  # one part may have 8
    one.dealer.send_multipart([bytes(4 * MiB)] * 500, copy=False)
    for _ in range(20):
        victim.send(200)
        one.dealer.poll(200)
        assert memory(managers) < before + 500 * MiB
    one.close()


def memory(managers: list[dict[str, Any]]) -> int:
    return sum(int(re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{im['pid']}/status").read_text())[0]) << 10 for im in managers)


def test_five_thousand_connections_and_half_a_handshake(victim: Victim, boss: Cluster, cluster: HostCluster) -> None:
    """At the link port of each host, and at REST: none says more than a beginning."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    first = cluster.net.address(1)
    doors = [address(im["endpoint"]) for im in boss.instance_managers()] + [f"{first}:8765"]
    begun = [
        b"",
        b"GET / HTTP/1.1\r\n",
        bytes.fromhex("ff00000000000000017f0300") + b"CURVE".ljust(20, b"\0") + bytes(32),
        b"\x16\x03\x01\x02",
    ]
    try:
        for door in doors:
            host, _, port = door.rpartition(":")
            opened = 0
            with ExitStack() as held:
                for number in range(CONNECTIONS):
                    with suppress(OSError):
                        connection = held.enter_context(socket.create_connection((host, int(port)), timeout=2))
                        connection.send(begun[number % len(begun)])
                        opened += 1
                    if number % 500 == 0:
                        victim.send(100)
                with cluster.client("new") as client:
                    assert len(client.instance_managers()) == 2
            assert opened > 0.9 * CONNECTIONS
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(boss.instance_managers()) == 2


def test_rest_is_not_asked_without_tls_the_authority_and_a_token(cluster: HostCluster) -> None:
    host = cluster.net.address(1)
    with pytest.raises((ClusterError, Unauthorized)), Cluster(f"http://{host}:8765", cluster.token, patience_s=2.0) as client:
        client.queries()
    with pytest.raises(ClusterError, match=r"certificate|authority"), Cluster(cluster.url, cluster.token, patience_s=2.0) as client:
        client.queries()
    with pytest.raises(Unauthorized), Cluster(cluster.url, "x" * 40, ca=cluster.ca) as client:
        client.queries()
