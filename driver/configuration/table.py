"""Everything that a cluster is told. The file, the environment, the flags, `cep config` and docs/configuration.md are made of this table.

An option is added by a line here, and by a field of that name in `cep.config.ClusterConfig` where all processes are to know it, and in
`driver.processes.supervisor.LocalConfig` where `cep up` is to take it.
"""

from __future__ import annotations

from cep.config import (
    BUDGET_BYTES,
    GRACE_S,
    HOSTS_SESSION_TIMEOUT_S,
    LOG,
    LOG_FORMS,
    RECOVER_FORMS,
    SESSION_TIMEOUT_S,
    STATE_LIMIT_BYTES,
)
from cep.model.limits import HELD_BYTES_MAX, INSTANCES_MAX, PORT_MAX, SUBSCRIPTIONS_MAX, WAIT_S_MAX
from driver.configuration.option import Option
from driver.processes.children import PAUSE_MAX_S
from driver.processes.watch import HOLD_S

CLIENTS = "clients"
"""The role of the commands that ask a cluster: `cep deploy`, `cep status` and others."""

UP, INIT, ZOOKEEPER, ORCHESTRATOR, METRICS, GATEWAY = "up", "init", "zookeeper", "orchestrator", "metric-server", "gateway"
MANAGERS, JOIN, CONSOLE, SPARK_MASTER, SPARK_WORKER = "instance-managers", "join", "console", "spark-master", "spark-worker"
CONNECTING = "run-connectors"

_OURS = (ORCHESTRATOR, METRICS, GATEWAY, MANAGERS, CONNECTING)
_EVERY = (UP, *_OURS, JOIN)
ROLES = (UP, INIT, ZOOKEEPER, *_OURS, JOIN, CONSOLE, SPARK_MASTER, SPARK_WORKER, CLIENTS)

PORT = 8765
METRICS_PORT = 8764
CONSOLE_PORT = 8780
SERVERS_MAX = 255
URL = f"http://127.0.0.1:{PORT}"

OPTIONS: tuple[Option, ...] = (
    # where things are
    Option("run", str, None, "The folder that the processes of this machine share.",
           (INIT, *_OURS, JOIN, CONSOLE, SPARK_MASTER, SPARK_WORKER, CLIENTS), "where", exported=True),
    Option("zookeeper", str, "127.0.0.1:2181", "ZooKeeper's servers, `HOST:PORT,HOST:PORT`.", (ORCHESTRATOR, METRICS, MANAGERS), "where"),
    Option("url", str, URL, "The orchestrator's address; of several, theirs with commas.",
           (GATEWAY, CONNECTING, CONSOLE, CLIENTS), "where"),
    Option("folder", str, None, "Where a local cluster makes its private folder; default: the temporary folder.", (UP,), "where"),
    Option("home", str, None,
           "The folder of a local cluster that stays: one that is started on it again has its queries, streams and subscriptions.",
           (UP,), "where", known_as="lasting_home"),
    Option("keep_home", bool, False, "Leave that folder, with its logs, when the cluster ends.", (UP,), "where"),
    Option("checkpoint_folder", str, None,
           "Where checkpoints of queries that recover are, a folder of this cluster alone that all its hosts share; "
           "default: `checkpoints` in the run folder, or in that of the local cluster.",
           (UP, ORCHESTRATOR, MANAGERS, JOIN), "where"),
    Option("uid", int, None, "The user to whom the run folder is to belong; default: the one that runs `cep init`.",
           (INIT,), "where", least=0, flags={INIT: "--user"}),
    Option("gid", int, None, "Likewise its group.", (INIT,), "where", least=0, flags={INIT: "--group"}),
    Option("uids", list, (), "Further users whose processes may speak to those of this machine.", _EVERY, "where", exported=True),
    # REST
    Option("rest_host", str, "127.0.0.1", "Where REST listens; beyond loopback it needs tokens and TLS.",
           (UP, ORCHESTRATOR), "REST", flags={UP: "--host", ORCHESTRATOR: "--host"}),
    Option("rest_port", int, PORT, "REST's port; 0 (`cep up`): any free one.",
           (UP, ORCHESTRATOR), "REST", least=0, most=PORT_MAX, flags={UP: "--port", ORCHESTRATOR: "--port"}),
    Option("rest_address", str, None, "The URL by which others reach this orchestrator; default: as it listens.",
           (UP, ORCHESTRATOR), "REST", flags={UP: "--address", ORCHESTRATOR: "--address"}, known_as="rest_url"),
    Option("rest_names", list, (), "Further names by which REST may be asked for, behind a proxy for example.",
           (UP, ORCHESTRATOR), "REST", flags={UP: "--rest-name", ORCHESTRATOR: "--rest-name"}),
    Option("token", str, None, "What a request to REST has to carry; default: that of the run folder, or none.",
           (UP, JOIN, CONSOLE, CLIENTS), "REST", secret=True),
    # the door
    Option("tokens", str, None, "The file of tokens that `cep token` keeps, each with its roles; default: that of the run folder, or none.",
           (UP, ORCHESTRATOR, GATEWAY), "the door"),
    Option("keys", str, None, "The folder that `cep keys` has made: REST speaks TLS with what is in it.",
           (UP, INIT, ZOOKEEPER, ORCHESTRATOR, METRICS, GATEWAY, MANAGERS, CONNECTING), "the door"),
    Option("tls_cert", str, None, "Another certificate for REST, or one for the console, with those that lead to its authority, in PEM.",
           (UP, ORCHESTRATOR, CONSOLE), "the door"),
    Option("tls_key", str, None, "Its key, in PEM.", (UP, ORCHESTRATOR, CONSOLE), "the door"),
    Option("ca", str, None, "The authority by whose certificates REST is known, in PEM; default: that in `keys`, or those of this machine.",
           (UP, ORCHESTRATOR, GATEWAY, CONNECTING, JOIN, CONSOLE, CLIENTS), "the door"),
    Option("insecure_http", bool, False,
           "REST, or the console, without TLS beyond loopback: behind a proxy that has it, or on a network of its own.",
           (UP, ORCHESTRATOR, CONSOLE), "the door"),
    Option("zookeeper_tls", bool, False, "ZooKeeper speaks TLS, with those alone that have a certificate of the authority in `keys`.",
           (UP, ZOOKEEPER, ORCHESTRATOR, METRICS, MANAGERS), "the door"),
    # what queries may do
    Option("data", list, (), "Folders under which files may be read and written.", (UP, ORCHESTRATOR, MANAGERS, CONNECTING, JOIN),
           "queries", separator=":"),
    Option("modules", list, (), "Modules whose functions queries may call.",
           (UP, ORCHESTRATOR, MANAGERS), "queries", flags={UP: "--module"}),
    Option("module_path", list, (), "Folders in which these modules are.", (UP, ORCHESTRATOR, MANAGERS, JOIN), "queries", separator=":"),
    Option("spark_masters", list, (), "Masters on which programs of this machine may run queries with Spark; default: any.",
           (CLIENTS,), "queries", exported=True),
    # hosts
    Option("listen", str, None, "The address at which other hosts reach this one; then they may join, and REST is there too.",
           (UP, INIT, ORCHESTRATOR, METRICS, MANAGERS), "hosts", known_as="address"),
    Option("host_name", str, "", "The name of this host, which no other has; default: as the machine is called.",
           (UP, ORCHESTRATOR, METRICS, MANAGERS, JOIN), "hosts", flags=dict.fromkeys((UP, ORCHESTRATOR, METRICS, MANAGERS, JOIN), "--name"),
           known_as="host"),
    Option("metrics_port", int, METRICS_PORT, "Where the metric server is at `listen`; with `cep up` at any free port.",
           (ORCHESTRATOR, METRICS, MANAGERS), "hosts", least=1, most=PORT_MAX),
    Option("address", str, None, "The address at which other hosts reach this one; default: from which it reaches the cluster.",
           (JOIN,), "hosts"),
    # queries
    Option("recover", str, RECOVER_FORMS[0],
           "How queries recover that do not say it, where they can (`options(recover=)`).",
           (UP, ORCHESTRATOR), "queries", choices=RECOVER_FORMS),
    # instance managers
    Option("instances", int, None, "Instance managers; default: one for each core, with `cep up` at most 4.",
           (UP, MANAGERS, JOIN), "instance managers", least=1, most=INSTANCES_MAX),
    Option("numa", bool, True, "Bind each instance manager to a core and its NUMA node.", (UP,), "instance managers"),
    Option("node", int, None, "The NUMA node whose cores they are to have; default: all nodes.",
           (MANAGERS,), "instance managers", least=0),
    Option("kernel_cache", str, None, "Where compiled kernels are kept; default: the user's own folder.",
           (UP, MANAGERS, JOIN), "instance managers"),
    Option("fast_path", bool, True, "Small messages take a fast path where they can; without it for bug reports.",
           (UP, MANAGERS), "instance managers"),
    Option("stock_numba", bool, False, "Kernels are compiled as Numba does it, not by our own pipeline: for bug reports.",
           (UP, MANAGERS), "instance managers"),
    Option("loaders", bool, True, "Instance managers are copies of a process that has loaded what they need; without it, for bug reports.",
           (UP, MANAGERS), "instance managers"),
    # times
    Option("session_timeout_s", float, SESSION_TIMEOUT_S, "How long a process may be silent before it counts as dead.",
           (UP, ORCHESTRATOR, MANAGERS), "times", "s", 2, WAIT_S_MAX, also=("CEP_SESSION_TIMEOUT",),
           flags=dict.fromkeys((UP, ORCHESTRATOR, MANAGERS), "--session-timeout"), beside=("listen", HOSTS_SESSION_TIMEOUT_S)),
    Option("grace_s", float, GRACE_S, "How long a publisher, or a query that reads another, may be silent; at least the session time-out.",
           (UP, ORCHESTRATOR, MANAGERS), "times", "s", 0.1, WAIT_S_MAX, flags=dict.fromkeys((UP, ORCHESTRATOR, MANAGERS), "--grace")),
    Option("hold_s", float, HOLD_S, "How long an operator may hold an instance manager before that is ended; 0: for ever.",
           (UP, MANAGERS, JOIN), "times", "s", 0, 86_400, flags=dict.fromkeys((UP, MANAGERS, JOIN), "--hold")),
    Option("pause_max_s", float, PAUSE_MAX_S, "The longest pause before a process that dies again and again is started again.",
           (UP, MANAGERS, JOIN), "times", "s", 0, 3_600),
    Option("start_timeout_s", float, 60.0, "How long all may take to be ready.",
           (UP,), "times", "s", 0.1, WAIT_S_MAX, flags={UP: "--start-timeout"}),
    # limits
    Option("budget_bytes", int, BUDGET_BYTES, "What the inbound channels of one instance manager may hold together; senders wait.",
           (UP, MANAGERS), "limits", "bytes", 1 << 16, HELD_BYTES_MAX),
    Option("state_limit_bytes", int, STATE_LIMIT_BYTES, "What the state of one subquery instance may take before its query fails.",
           (UP, MANAGERS), "limits", "bytes", 1, HELD_BYTES_MAX),
    Option("memory_bytes_max", int, None,
           "What one instance manager may have; at 90 % of it its largest query is ended. Default: its share of the machine's.",
           (UP, MANAGERS), "limits", "bytes", 1, HELD_BYTES_MAX),
    Option("queries_max", int, None, "Queries of the cluster that are not over; default: any number.",
           (UP, ORCHESTRATOR), "limits", least=0),
    Option("queries_of_client_max", int, None, "The same of one client, known by its token.",
           (UP, ORCHESTRATOR), "limits", least=0),
    Option("publishers_max", int, None, "Open publishers of one stream; default: any number.",
           (UP, ORCHESTRATOR), "limits", least=0),
    Option("subscribers_max", int, None, "Subscriptions of one stream; default: as many as fit into a node of ZooKeeper.",
           (UP, ORCHESTRATOR), "limits", least=0, most=SUBSCRIPTIONS_MAX),
    Option("requests_per_s_max", float, None, "Requests to REST a second of one client; more are answered 429. Default: any number.",
           (UP, ORCHESTRATOR), "limits", "1/s", 0.01, 1e6),
    # what is told
    Option("log", str, LOG, "How processes log: lines of text, or one JSON document a line.", _EVERY, "logs", choices=LOG_FORMS),
    # the console
    Option("console", bool, False, "A console of the cluster is kept up too; it needs the package's extra `console`.", (UP,), "console"),
    Option("console_host", str, "127.0.0.1", "Where the console listens; beyond loopback it needs TLS.",
           (CONSOLE,), "console", flags={CONSOLE: "--host"}),
    Option("console_port", int, CONSOLE_PORT, "The console's port; 0: any free one.",
           (UP, CONSOLE), "console", least=0, most=PORT_MAX, flags={CONSOLE: "--port"}),
    Option("console_names", list, (), "Further names by which browsers may ask for the console.",
           (CONSOLE,), "console", flags={CONSOLE: "--name"}),
    Option("console_secret_file", str, None, "What browsers have to show the console; default: made anew and printed, where one is needed.",
           (CONSOLE,), "console", flags={CONSOLE: "--secret-file"}),
    Option("token_file", str, None, "The token with which the console asks the cluster; default: `token`.", (CONSOLE,), "console"),
    # services that are not ours
    Option("zookeeper_host", str, "127.0.0.1", "Where ZooKeeper listens.", (ZOOKEEPER,), "ZooKeeper", flags={ZOOKEEPER: "--host"}),
    Option("zookeeper_port", int, 2181, "Its port.", (ZOOKEEPER,), "ZooKeeper", least=1, most=PORT_MAX, flags={ZOOKEEPER: "--port"}),
    Option("zookeeper_data", str, "zookeeper", "The folder of its data, which outlive it.",
           (ZOOKEEPER,), "ZooKeeper", flags={ZOOKEEPER: "--folder"}),
    Option("zookeeper_servers", list, (), "The hosts of all servers of an ensemble, in one order everywhere; default: it is alone.",
           (ZOOKEEPER,), "ZooKeeper", flags={ZOOKEEPER: "--servers"}),
    Option("zookeeper_id", int, 1, "Which of these servers it is, from 1.",
           (ZOOKEEPER,), "ZooKeeper", least=1, most=SERVERS_MAX, flags={ZOOKEEPER: "--id"}),
    Option("spark_host", str, None, "Where a process of Spark listens; default: the master at 127.0.0.1, a worker at the machine's name.",
           (SPARK_MASTER, SPARK_WORKER), "Spark", flags={SPARK_MASTER: "--host", SPARK_WORKER: "--host"}),
    Option("spark_port", int, 7077, "The master's port.",
           (SPARK_MASTER,), "Spark", least=1, most=PORT_MAX, flags={SPARK_MASTER: "--port"}),
    Option("spark_master", str, "spark://127.0.0.1:7077", "A worker's master.", (SPARK_WORKER,), "Spark", flags={SPARK_WORKER: "--master"}),
    Option("spark_cores", int, 1, "A worker's tasks at a time.", (SPARK_WORKER,), "Spark", least=1, flags={SPARK_WORKER: "--cores"}),
    Option("spark_memory_mb", int, 1024, "For a worker's executors.",
           (SPARK_WORKER,), "Spark", "MiB", 512, flags={SPARK_WORKER: "--memory-mb"}),
    Option("spark_folder", str, "/tmp/spark-worker", "Where a worker's executors keep what they need.",
           (SPARK_WORKER,), "Spark", flags={SPARK_WORKER: "--folder"}),
)  # fmt: skip

BY_NAME = {option.name: option for option in OPTIONS}

#: Variables of the environment that begin as ours do, and are no options: of compose files, builds and tests.
OTHER_VARIABLES = frozenset(
    ("CEP_CONFIG", "CEP_IMAGE", "CEP_FILES", "CEP_PORT", "CEP_PORT_2", "CEP_CORES", "CEP_CONNECTORS_CORES", "CEP_PLANT", "CEP_NUMA_GUEST")
)


def options_of(role: str) -> tuple[Option, ...]:
    return tuple(option for option in OPTIONS if role in option.roles)
