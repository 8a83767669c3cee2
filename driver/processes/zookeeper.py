"""The ZooKeeper of the embedded cluster: the real server, from the jars that PySpark's wheel carries.

Decisions, with their reasons:
- Only the jars it needs are on its class path: half the start-up time and 50 MB less than with all of PySpark's [ran].
- It logs by the simple logger of Log4j's API: errors, to stderr, as Log4j itself does where nothing is configured. To load that takes
  0.3 s of CPU, as much as half of the rest of the start.
- `forceSync=no`: a write is answered before the disk has it. A killed process loses nothing, for what it wrote is with the
  kernel; only a crash of the machine could, and that takes the whole embedded cluster with it. A ZooKeeper of several
  machines is configured by its operator, and keeps its default.
- 512 MB of heap at most: it keeps the last 500 transactions, for followers that it does not have, and 5,000 queries deployed in
  transactions of half a megabyte ended it at 128 MB. What it does not need it does not take.
- Its port is *reserved*: a bound socket that never listens. Linux lets ZooKeeper listen beside it (both reuse the address)
  and gives the port to no other process, so a restarted ZooKeeper is found where it was.
- ZooKeeper 3.9.5 accepts connections some 100 ms before it has read its data. One that says something in that time is neither
  answered nor closed: `NullPointerException … "this.zkDb" is null` while it is being turned away [ran: 13 of 14 restarts, with
  clients that reconnect at once]. A client must not wait for it longer than its session lives.
"""

from __future__ import annotations

import importlib.util
import secrets
import socket
import ssl
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from cep.errors import ClusterError
from driver.processes.key_folder import KeyFolder
from driver.processes.secret_files import keep_secret

HOST = "127.0.0.1"
TICK_MS = 1000
SESSION_TIMEOUT_MS_MAX = 60_000
PEER_PORT, ELECTION_PORT = 2888, 3888
"""By which the servers of an ensemble speak to each other, as ZooKeeper's own documents have them."""

_ATTEMPTS_PER_SESSION = 4
_SECRET_BYTES = 32

_JARS = (
    "zookeeper-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-slf4j*.jar",
    "netty-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "commons-io-*.jar",
    "audience-annotations-*.jar",
)
_LOGGERS = "org.apache.logging.log4j.simple.SimpleLoggerContextFactory"
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


@dataclass(frozen=True, slots=True)
class Ensemble:
    """Several servers that are one ZooKeeper, and go on while more than half of them do.

    Args:
        hosts: of all of them, in one order everywhere.
        number: which of them this is, from 1.

    They speak to each other without TLS: on a network of their own.
    """

    hosts: Sequence[str]
    number: int

    def __post_init__(self) -> None:
        """Raises ClusterError: it is none of them."""
        if self.number > len(self.hosts):
            raise ClusterError(f"ZooKeeper's --id: expected 1 to {len(self.hosts)}, for there are so many --servers, got {self.number}")

    def settings(self) -> dict[str, object]:
        servers = {f"server.{i}": f"{host}:{PEER_PORT}:{ELECTION_PORT}" for i, host in enumerate(self.hosts, 1)}
        return {"initLimit": 10, "syncLimit": 5, **servers}


@dataclass(frozen=True, slots=True)
class ZooKeeper:
    """One server: the folder with its configuration and data, its port and the address where it listens.

    Args:
        lasting: its data outlive this run: a write is answered when the disk has it.
        keys: it speaks TLS alone, with the certificate in this folder, and with those alone that show one of its authority; None: without.
        ensemble: those that it is one of; None: it is alone.
    """

    folder: Path
    port: int
    host: str = HOST
    lasting: bool = False
    keys: KeyFolder | None = None
    ensemble: Ensemble | None = None

    @property
    def hosts(self) -> str:
        """What a client connects to."""
        return patient(f"{self.host}:{self.port}")

    def command(self, java_home: Path, jars: Path) -> list[str]:
        """Writes the configuration; what to run. Raises OSError where the folder cannot be written."""
        configuration = self.folder / "zoo.cfg"
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        configuration.write_text("".join(f"{key}={value}\n" for key, value in self._settings().items()))
        if self.ensemble is not None:
            (self.folder / "data" / "myid").write_text(f"{self.ensemble.number}\n")
        return [
            str(java_home / "bin" / "java"),
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.loggerContextFactory={_LOGGERS}",
            "-Dlog4j2.simplelogShowdatetime=true",
            f"-Dzookeeper.forceSync={'yes' if self.lasting else 'no'}",
            "-Dzookeeper.preAllocSize=1024",  # kB by which its log grows, instead of 64 MB
            "-cp",
            class_path(jars),
            _MAIN,
            str(configuration),
        ]

    def _settings(self) -> dict[str, object]:
        return {
            "dataDir": self.folder / "data",
            **({"clientPort": self.port, "clientPortAddress": self.host} if self.keys is None else self._tls_settings(self.keys)),
            "tickTime": TICK_MS,
            "minSessionTimeout": 2 * TICK_MS,
            "maxSessionTimeout": SESSION_TIMEOUT_MS_MAX,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",  # it needs a jetty, which is not there
            "4lw.commands.whitelist": "srvr,ruok",
            "autopurge.snapRetainCount": 3,
            "autopurge.purgeInterval": 1,
            **({} if self.ensemble is None else self.ensemble.settings()),
        }

    def _tls_settings(self, keys: KeyFolder) -> dict[str, object]:
        """Only Netty's connections can have TLS. A client's certificate names no host, so none is looked for in it."""
        return {
            "secureClientPort": self.port,
            "secureClientPortAddress": self.host,
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.clientAuth": "need",
            "ssl.enabledProtocols": "TLSv1.3,TLSv1.2",
            "ssl.hostnameVerification": "false",
            "ssl.keyStore.location": keys.server_pem.resolve(),
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": keys.ca.resolve(),
            "ssl.trustStore.type": "PEM",
        }

    def serves(self, timeout_s: float = 1.0) -> bool:
        """Does it answer?"""
        try:
            return is_ok(self.host, self.port, timeout_s, self.keys)
        except OSError:
            return False


def is_ok(host: str, port: int, timeout_s: float, keys: KeyFolder | None = None) -> bool:
    """Does the ZooKeeper there say that it is? Raises OSError: nothing does, or TLS with it is not begun."""
    with ExitStack() as open_:
        connection = open_.enter_context(socket.create_connection((host, port), timeout_s))
        if keys is not None:
            context = ssl.create_default_context(cafile=keys.ca)
            context.load_cert_chain(keys.client, keys.client_key)
            connection = open_.enter_context(context.wrap_socket(connection, server_hostname=host))
        connection.sendall(b"ruok")
        return connection.recv(4) == b"imok"


def patient(servers: str) -> str:
    """`host:port,host:port` with each server several times. kazoo gives a server a session timeout divided by the number of servers
    to answer, and one that is just starting may never answer (see above)."""
    named = servers.split(",")
    return ",".join(named * -(-_ATTEMPTS_PER_SESSION // len(named)))


def make_secret(file: Path) -> None:
    """A secret in `file`, for its owner only, by which the cluster's processes are known to ZooKeeper (`cep.world.zookeeper`); one that is
    there stays, as long as ZooKeeper's data. Raises OSError: it cannot be written."""
    keep_secret(file, secrets.token_hex(_SECRET_BYTES))


def spark_jars() -> Path:
    """The folder of PySpark's jars. Raises ClusterError: PySpark is not installed, or has no ZooKeeper."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ClusterError("no ZooKeeper: the Python package pyspark, which brings it, is not there. Do: pip install pyspark")
    jars = Path(found.origin).parent / "jars"
    if not any(jars.glob("zookeeper-[0-9]*.jar")):
        raise ClusterError(f"no ZooKeeper: {jars} has no zookeeper-*.jar; PySpark 4.3 has one")
    return jars


def class_path(jars: Path) -> str:
    """The jars ZooKeeper needs, of all those in the folder."""
    return ":".join(str(jar) for pattern in _JARS for jar in sorted(jars.glob(pattern)))


def reserve_port(host: str = HOST) -> socket.socket:
    """A socket that holds a free port for a server on this machine that reuses addresses. Keep it open."""
    holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((host, 0))
    return holder
