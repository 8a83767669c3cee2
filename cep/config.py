"""What all processes of one cluster agree on: its configuration, one JSON word on the command line, and ZooKeeper paths.

Only the standard library is imported, for instance managers read this before they bind themselves (rule 7.1).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import quote

from cep.errors import ClusterError

BUDGET_BYTES = 64 << 20
STATE_LIMIT_BYTES = 4 << 30
SESSION_TIMEOUT_S = 6.0
GRACE_S = 10.0
TOKEN_VARIABLE = "CEP_TOKEN"
RUN_VARIABLE = "CEP_RUN"


_LISTS = ("data", "modules", "module_path", "rest_names")


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """One cluster.

    Args:
        home: the folder for logs and sockets of this machine's processes.
        zookeeper: its servers, `host:port,host:port`.
        rest_host, rest_port: where the orchestrator answers; an address beyond loopback needs a token.
        rest_names: further names by which REST may be asked for, behind a proxy for example; without a token others are refused.
        metrics_in: the metric server's endpoint for reports, of the same kind as the instance managers' own (`cep.transport.sockets`).
        metrics_out: ZeroMQ endpoint at which it answers questions.
        data: the folders under which file sources and sinks may be; none: no files.
        modules: the modules whose functions queries may call; none: no functions of users.
        module_path: folders in which they are found, behind those where Python looks anyway.
        token: what a REST request must carry as `Authorization: Bearer`; None: nothing (loopback only).
        session_timeout_s: how long a silent process still counts as alive. Under load at least 5.
        grace_s: how long a publisher, or a query that reads another, may be silent before it counts as gone; see `silence_s`.
        budget_bytes: what the inbound channels of one instance manager may hold together (rule 7.4).
        state_limit_bytes: what the state of one subquery instance may take before its query fails.
        numa: instance managers are bound to cores and nodes, and the planner knows distances.
        kernel_cache: the folder of compiled kernels; None: the user's own.
        rest_fd: a listening socket inherited from the process that started the orchestrator; None: it opens its own.
        zookeeper_secret: the file with the secret by which the cluster's processes are known to ZooKeeper; None: it is open.
        gateway: the Unix socket of the process that publishes and subscribes for REST clients; None: there is none.
        reports: the folder in which supervisors report on the processes they keep up (`cep.service.reports`); None: none does.
        checkpoint_folder: where checkpoints of queries are, a folder that all processes of the cluster share; None: below the home.
        fast_path: small messages take the fast path through instances that only pass tuples on; False: none does (for bug reports).
        stock_numba: kernels are compiled as Numba does it, not by a pipeline tailored to them (for bug reports).
        rest_url: how others reach REST where the address it listens at does not tell, such as 0.0.0.0; several orchestrators with commas.
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
    token: str | None = None
    session_timeout_s: float = SESSION_TIMEOUT_S
    grace_s: float = GRACE_S
    budget_bytes: int = BUDGET_BYTES
    state_limit_bytes: int = STATE_LIMIT_BYTES
    numa: bool = True
    kernel_cache: str | None = None
    rest_fd: int | None = None
    zookeeper_secret: str | None = None
    gateway: str | None = None
    reports: str | None = None
    rest_url: str | None = None
    fast_path: bool = True
    stock_numba: bool = False
    checkpoint_folder: str | None = None

    @property
    def checkpoints(self) -> str:
        """The folder of checkpoints."""
        return self.checkpoint_folder or f"{self.home}/checkpoints"

    @property
    def silence_s(self) -> float:
        """What counts: no client is given up sooner than a process whose session with ZooKeeper has ended (rule 4.11)."""
        return max(self.grace_s, self.session_timeout_s)

    @property
    def rest(self) -> str:
        """The REST address as a URL."""
        if self.rest_url is not None:
            return self.rest_url
        host = f"[{self.rest_host}]" if ":" in self.rest_host else self.rest_host
        return f"http://{host}:{self.rest_port}"

    def without_token(self) -> ClusterConfig:
        return replace(self, token=None)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {key: list(getattr(self, key)) for key in _LISTS}

    @staticmethod
    def from_json(document: dict[str, Any]) -> ClusterConfig:
        """Raises ClusterError: a field is missing or unknown."""
        try:
            config = ClusterConfig(**document)
        except TypeError as error:
            raise ClusterError(f"not a cluster configuration: {error}") from None
        lists: dict[str, Any] = {key: tuple(getattr(config, key)) for key in _LISTS}
        return replace(config, **lists)


@dataclass(frozen=True, slots=True)
class InstanceManagerConfig:
    """One instance manager of the cluster: its id, core and node (None: unbound), the endpoint others send to, and the page in which it
    says what it is at (`cep.service.mark`; None: it is not read)."""

    cluster: ClusterConfig
    id: str
    core: int | None
    node: int | None
    endpoint: str
    mark: str | None = None

    def to_json(self) -> dict[str, Any]:
        own = {"id": self.id, "core": self.core, "node": self.node, "endpoint": self.endpoint, "mark": self.mark}
        return own | {"cluster": self.cluster.to_json()}

    @staticmethod
    def from_json(document: dict[str, Any]) -> InstanceManagerConfig:
        """Raises ClusterError: a field is missing or unknown."""
        try:
            return InstanceManagerConfig(**document | {"cluster": ClusterConfig.from_json(document["cluster"])})
        except (TypeError, KeyError) as error:
            raise ClusterError(f"not the configuration of an instance manager: {error}") from None


def argument(config: ClusterConfig | InstanceManagerConfig) -> str:
    """The configuration as the one word that a process gets on its command line, which every user of the machine can
    read: so without the token, which travels in the environment as TOKEN_VARIABLE to the processes that need it."""
    if isinstance(config, ClusterConfig):
        return json.dumps(config.without_token().to_json(), separators=(",", ":"))
    return json.dumps(replace(config, cluster=config.cluster.without_token()).to_json(), separators=(",", ":"))


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
