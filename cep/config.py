"""What all processes of one cluster agree on: its configuration, one JSON word on the command line, and ZooKeeper paths.

Only the standard library is imported, for instance managers read this before they bind themselves (rule 7.1).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any
from urllib.parse import quote

from cep.errors import ClusterError
from cep.secret import Secret

BUDGET_BYTES = 64 << 20
STATE_LIMIT_BYTES = 4 << 30
SESSION_TIMEOUT_S = 6.0
HOSTS_SESSION_TIMEOUT_S = 10.0
"""Of several hosts: ZooKeeper hears of a session every third of it, and a cut of 5 s has to fit in with the time to connect again."""
GRACE_S = 10.0
MEMORY = "/dev/shm/"
RINGS = "sent"  # the folder below the reports where clients keep what they have sent
LOG_FORMS = ("text", "json")
LOG = LOG_FORMS[0]
RECOVER_FORMS = ("off", "on-commit", "at-once")
TOKEN_VARIABLE = "CEP_TOKEN"
CA_VARIABLE = "CEP_CA"
RUN_VARIABLE = "CEP_RUN"


EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""An address at which one listens, and how it is reached from this machine."""

_LISTS = ("data", "modules", "module_path", "rest_names")


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """One cluster.

    Args:
        home: the folder for logs and sockets of this machine's processes.
        zookeeper: its servers, `host:port,host:port`.
        rest_host, rest_port: where the orchestrator answers; an address beyond loopback needs tokens and TLS.
        rest_names: further names by which REST may be asked for, behind a proxy for example; without a token others are refused.
        metrics_in: the metric server's endpoint for reports, of the same kind as the instance managers' own (`cep.transport.sockets`).
        metrics_out: ZeroMQ endpoint at which it answers questions.
        data: the folders under which file sources and sinks may be; none: no files.
        modules: the modules whose functions queries may call; none: no functions of users.
        module_path: folders in which they are found, behind those where Python looks anyway.
        token: what a REST request must carry as `Authorization: Bearer`, and then may do everything; None: nothing (loopback only).
        tokens: the file of further tokens, each with its roles (`cep.service.token_file`); it need not be there yet. None: there are none.
        tls_cert, tls_key: REST's certificate and its key, files in PEM; None: REST speaks plain HTTP (loopback only).
        ca: the authority by whose certificates the cluster's processes know REST and ZooKeeper, in PEM; None: those that this machine has.
        insecure_http: plain HTTP beyond loopback all the same, behind a proxy that speaks TLS, or on a network of the cluster's own.
        members: the file with the key pair by which the members of a new cluster know each other on links (CURVE); None: it has none.
        zookeeper_cert, zookeeper_key: the certificate by which ZooKeeper lets the cluster's processes in, and its key; None: without TLS.
        session_timeout_s: how long a silent process still counts as alive. Under load at least 5.
        grace_s: how long a publisher, or a query that reads another, may be silent before it counts as gone; see `silence_s`.
        budget_bytes: what the inbound channels of one instance manager may hold together (rule 7.4).
        state_limit_bytes: what the state of one subquery instance may take before its query fails.
        numa: instance managers are bound to cores and nodes, and the planner knows distances.
        kernel_cache: the folder of compiled kernels; None: the user's own.
        rest_fd: a listening socket inherited from the process that started the orchestrator; None: it opens its own.
        zookeeper_secret: the file with the secret by which the cluster's processes are known to ZooKeeper; None: it is open.
        gateway: the Unix socket of the process that publishes and subscribes for REST clients; None: there is none.
        connectors: the Unix socket at which a connection has the process started that runs connectors; None: it is started by hand.
        reports: the folder in which supervisors report on the processes they keep up (`cep.service.reports`); None: none does.
        checkpoint_folder: where checkpoints of queries are, a folder that all processes of the cluster share; None: below the home.
        recover: what queries do that do not say it, if they can, one of RECOVER_FORMS.
        fast_path: small messages take the fast path through instances that only pass tuples on; False: none does (for bug reports).
        stock_numba: kernels are compiled as Numba does it, not by a pipeline tailored to them (for bug reports).
        loaders: instance managers are copies of a process that has loaded what they need (`driver.processes.loaders`); False: each is
            started by itself (for bug reports).
        host: the name of the host on which the process is; empty in a cluster of one machine.
        address: at which the other hosts reach this one's processes; None: they do not.
        rest_url: how others reach REST where the address it listens at does not tell, such as 0.0.0.0; several orchestrators with commas.
        queries_max, queries_of_client_max, publishers_max, subscribers_max: quotas (`orchestrator.state.quotas`).
        requests_per_s_max: of one client of REST; None: any number (`orchestrator.rest.rate_limit`).
        memory_bytes_max: what one instance manager may have; None: what the machine has for it (`instance_manager.memory`).
        log: how processes log, one of LOG_FORMS (`cep.service.logs`).
    """

    home: str
    zookeeper: str
    rest_host: str
    rest_port: int
    metrics_in: str
    metrics_out: str
    data: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    module_path: tuple[str, ...] = ()
    rest_names: tuple[str, ...] = ()
    token: Secret | None = None
    tokens: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    ca: str | None = None
    insecure_http: bool = False
    zookeeper_cert: str | None = None
    zookeeper_key: str | None = None
    members: str | None = None
    session_timeout_s: float = SESSION_TIMEOUT_S
    grace_s: float = GRACE_S
    budget_bytes: int = BUDGET_BYTES
    state_limit_bytes: int = STATE_LIMIT_BYTES
    numa: bool = True
    kernel_cache: str | None = None
    rest_fd: int | None = None
    zookeeper_secret: str | None = None
    gateway: str | None = None
    connectors: str | None = None
    reports: str | None = None
    rest_url: str | None = None
    host: str = ""
    address: str | None = None
    fast_path: bool = True
    stock_numba: bool = False
    loaders: bool = True
    log: str = LOG
    queries_max: int | None = None
    queries_of_client_max: int | None = None
    publishers_max: int | None = None
    subscribers_max: int | None = None
    requests_per_s_max: float | None = None
    memory_bytes_max: int | None = None
    checkpoint_folder: str | None = None
    recover: str = RECOVER_FORMS[0]

    @property
    def checkpoints(self) -> str:
        """The folder of checkpoints."""
        return self.checkpoint_folder or f"{self.home}/checkpoints"

    @property
    def rings(self) -> str | None:
        """The folder in which clients of this host keep what they have sent to queries that recover (`cep.world.rings`); None: they keep it
        in their own memory, for there is no folder in memory that supervisors take down."""
        return f"{self.reports}/{RINGS}" if self.reports is not None and self.reports.startswith(MEMORY) else None

    @property
    def silence_s(self) -> float:
        """What counts: no client is given up sooner than a process whose session with ZooKeeper has ended (rule 4.11)."""
        return max(self.grace_s, self.session_timeout_s)

    @property
    def lease_s(self) -> float:
        """A process that was away for longer may count as dead. ZooKeeper hears of each a third of a session after it last did, so one that
        stops just before that has two thirds left; the rest is for a heartbeat that is late."""
        return self.session_timeout_s / 2

    @property
    def rest(self) -> str:
        """The REST address as a URL."""
        if self.rest_url is not None:
            return self.rest_url
        host = EVERYWHERE.get(self.rest_host, self.rest_host)
        return f"{'http' if self.tls_cert is None else 'https'}://{f'[{host}]' if ':' in host else host}:{self.rest_port}"

    @property
    def zookeeper_credentials(self) -> tuple[str, str, str] | None:
        """Authority, certificate and key for a session with ZooKeeper; None: it is without TLS. Raises ClusterError: one is missing."""
        files = self.ca, self.zookeeper_cert, self.zookeeper_key
        if self.zookeeper_cert is None and self.zookeeper_key is None:
            return None
        if None in files:
            raise ClusterError("TLS with ZooKeeper needs an authority, a certificate and its key: ca, zookeeper_cert, zookeeper_key")
        return files  # type: ignore[return-value]  # none of them is None

    def to_json(self) -> dict[str, Any]:
        """Without the token, which stands in no document."""
        return asdict(replace(self, token=None)) | {key: list(getattr(self, key)) for key in _LISTS}

    @staticmethod
    def from_json(document: dict[str, Any]) -> ClusterConfig:
        """Raises ClusterError: a field is missing or unknown."""
        token = document.get("token")
        try:
            config = ClusterConfig(**document | {"token": Secret(token) if isinstance(token, str) else token})
        except TypeError as error:
            raise ClusterError(f"not a cluster configuration: {error}") from None
        lists: dict[str, Any] = {key: tuple(getattr(config, key)) for key in _LISTS}
        return replace(config, **lists)


@dataclass(frozen=True, slots=True)
class InstanceManagerConfig:
    """One instance manager of the cluster: its id, core and node (None: unbound), the endpoint others send to, the page in which it
    says what it is at (`cep.service.mark`; None: it is not read), and how many share the memory of its machine."""

    cluster: ClusterConfig
    id: str
    core: int | None
    node: int | None
    endpoint: str
    mark: str | None = None
    neighbours: int = 1

    def to_json(self) -> dict[str, Any]:
        own = {"id": self.id, "core": self.core, "node": self.node, "endpoint": self.endpoint}
        own |= {"mark": self.mark, "neighbours": self.neighbours}
        return own | {"cluster": self.cluster.to_json()}

    @staticmethod
    def from_json(document: dict[str, Any]) -> InstanceManagerConfig:
        """Raises ClusterError: a field is missing or unknown."""
        try:
            return InstanceManagerConfig(**document | {"cluster": ClusterConfig.from_json(document["cluster"])})
        except (TypeError, KeyError) as error:
            raise ClusterError(f"not the configuration of an instance manager: {error}") from None


def agreed(own: object, *but: str) -> dict[str, Any]:
    """Of a role's own configuration, a dataclass, what all processes of the cluster are told too: the fields that `ClusterConfig` has."""
    known = {each.name for each in fields(ClusterConfig)}.intersection(each.name for each in fields(own))  # type: ignore[arg-type]
    return {name: getattr(own, name) for name in known.difference(but)}


def argument(config: ClusterConfig | InstanceManagerConfig) -> str:
    """The configuration as the one word that a process gets on its command line, which every user of the machine can
    read: so without the token, which travels in the environment as TOKEN_VARIABLE to the processes that need it."""
    return json.dumps(config.to_json(), separators=(",", ":"))


# --- where things are in ZooKeeper (the table in docs/features/control.md) ------------------------------------------------------

ROOT = "/cep"


def node(*names: str) -> str:
    """The path of a node below ROOT: `node("plans", "per-ip")`. A name may hold any character."""
    return "/".join((ROOT, *map(_segment, names)))


def instance_node(query: str, subquery: str, instance: int) -> str:
    """The name under `/assignments/<im>` and `/status/<im>` of one subquery instance."""
    return f"{query}~{subquery}~{instance}"


def query_of_node(name: str) -> str:
    """The query that `instance_node` gave such a name: names of subqueries have no "~"."""
    return name.rsplit("~", 2)[0]


def _segment(name: str) -> str:
    # ZooKeeper refuses "/" and the names "." and ".."
    return quote(name, safe="~ ") if name.strip(".") else name.replace(".", "%2E")
