"""A query: a DAG of named operators between named streams, as a frozen value, and its JSON (rule 5.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cep.errors import QueryError, escaped, meant
from cep.model import operator_documents, sinks, streams
from cep.model.duration import format_duration, parse_duration
from cep.model.expr import check_nested, too_nested
from cep.model.limits import (
    BUCKETS_MAX,
    CHECKPOINT_US,
    CHECKPOINT_US_MAX,
    CHECKPOINT_US_MIN,
    HELD_BYTES_MAX,
    INSTANCES_MAX,
    WINDOWS_PER_ROW,
    WINDOWS_PER_ROW_MAX,
    checked,
)
from cep.model.operators import Operator
from cep.model.sinks import SinkFiles
from cep.model.streams import Stream

SPLITS = ("stateful", "single", "per-operator")
PRE_AGGREGATION = ("auto", "on", "off")
MESSAGE_POLICIES = ("interrupt", "poll")
REBALANCE = ("auto", "off")
HOSTS = ("spread", "packed")
#: What a query has to itself, more from left to right.
EXCLUSIVE = ("off", "core", "node")
#: auto: as the queries of its cluster do that do not say it (`cep.config.ClusterConfig.recover`).
RECOVER = ("auto", "off", "on-commit", "at-once")
_NUMBERS = ("replicas", "parallelism", "buckets", "windows_per_row_max", "state_bytes_max")
_MAY_BE_NONE = ("parallelism", "state_bytes_max")
BALANCERS = ("point-to-point", "round-robin", "route-key", "broadcast")


@dataclass(frozen=True)
class Output:
    """An output stream fed by an operator (or straight from a stream), perhaps written to files."""

    stream: str
    input: str
    files: SinkFiles | None = None


@dataclass(frozen=True)
class Options:
    """How a query is to be planned; none of it changes an answer."""

    split: str = "stateful"
    subqueries: tuple[tuple[str, ...], ...] = ()  # the user's own split; overrides `split`
    parallelism: int | None = None  # instances of every subquery that may have more than one; None: one per instance manager
    pre_aggregation: str = "auto"
    balancers: tuple[tuple[str, str], ...] = ()  # (operator that reads the edge, balancer)
    replicas: int = 1
    buckets: int = 4096
    #: How its instance managers wait for messages: asleep, or first for a while awake, which needs a core for each.
    message_policy: str = "interrupt"
    rebalance: str = "auto"  # buckets and instances move to where there is less to do; off: only when they are told to
    windows_per_row_max: int = WINDOWS_PER_ROW  # a query with a window of which more overlap is refused
    hosts: str | int = "spread"  # it may run on all hosts of the cluster; on so many, those with the most room; packed: on one
    recover: str = "auto"  # what becomes of it when an instance manager dies; on-commit: it goes on from its last checkpoint
    checkpoint: int = CHECKPOINT_US  # so often it takes one, where it recovers, µs; less often where that would cost too much
    #: What the state of an operator may take in an instance before the query fails; None: what the cluster allows, which holds anyway.
    state_bytes_max: int | None = None
    #: (subquery, its instances), where asked for one by one; others have one per instance manager. Documents call it `parallelism`.
    parallelism_of: tuple[tuple[str, int], ...] = ()
    exclusive: str = "off"  # no other query is placed on its cores, or on any core of their NUMA nodes, nor it where another one is

    @property
    def recovers(self) -> bool:
        """Does it go on from its last checkpoint when an instance manager dies? What is not said is no, unless the planner has said it."""
        return self.recover in ("on-commit", "at-once")

    @property
    def hosts_max(self) -> int | None:
        """On how many hosts it may run; None: on all."""
        return self.hosts if isinstance(self.hosts, int) else 1 if self.hosts == "packed" else None


@dataclass(frozen=True)
class Query:
    """Streams it declares, operators, outputs. `late` names the stream that gets late rows, if any."""

    name: str
    streams: tuple[Stream, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[Output, ...]
    late: str | None = None
    options: Options = field(default_factory=Options)


def to_json(query: Query) -> dict[str, Any]:
    """`from_json(to_json(query))` is the same query. Raises QueryError: an expression has too many operations inside each other."""
    try:
        document = _to_json(query)
    except RecursionError:
        raise too_nested() from None
    for key in ("streams", "operators"):
        for i, part in enumerate(document[key]):
            check_nested(part, f"/{key}/{i}")
    return document


def _to_json(query: Query) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": query.name,
        "streams": [streams.to_json(stream) for stream in query.streams],
        "operators": [operator_documents.to_json(operator) for operator in query.operators],
        "outputs": [_output_to_json(output) for output in query.outputs],
    }
    if query.late is not None:
        document["late"] = query.late
    if query.options != Options():
        document["options"] = options_to_json(query.options)
    return document


def options_to_json(options: Options) -> dict[str, Any]:
    return {
        "split": options.split,
        "subqueries": [list(names) for names in options.subqueries],
        "parallelism": dict(options.parallelism_of) or options.parallelism,
        "pre_aggregation": options.pre_aggregation,
        "balancers": dict(options.balancers),
        "replicas": options.replicas,
        "buckets": options.buckets,
        "message_policy": options.message_policy,
        "rebalance": options.rebalance,
        "windows_per_row_max": options.windows_per_row_max,
        "hosts": options.hosts,
        "recover": options.recover,
        "checkpoint": format_duration(options.checkpoint),
        "state_bytes_max": options.state_bytes_max,
        "exclusive": options.exclusive,
    }


def from_json(document: Any, planned: bool = False) -> Query:
    """`planned`: it is a plan's, in full. Raises QueryError with a JSON pointer to what is wrong. Names and types are checked by
    `cep.plan.validate`."""
    if not isinstance(document, dict):
        raise QueryError(f"expected a query (an object), got {type(document).__name__}")
    known = {"name", "streams", "operators", "outputs", "late", "options"}
    for key in document.keys() - known:
        raise QueryError(f"unknown key {key!r}{meant(key, known)}; a query has {', '.join(sorted(known))}", f"/{escaped(key)}")
    if not isinstance(document.get("name"), str) or not document["name"]:
        raise QueryError(f"a query needs a name, got {document.get('name')!r}", "/name")
    late = document.get("late")
    if late is not None and not isinstance(late, str):
        raise QueryError(f"late: expected the name of a stream, got {late!r}", "/late")
    return Query(
        document["name"],
        tuple(streams.from_json(d, f"/streams/{i}") for i, d in enumerate(_list(document, "streams"))),
        tuple(operator_documents.from_json(d, f"/operators/{i}", planned) for i, d in enumerate(_list(document, "operators"))),
        tuple(_output(d, f"/outputs/{i}") for i, d in enumerate(_list(document, "outputs"))),
        late,
        options_from_json(document.get("options", {}), "/options"),
    )


def _list(document: dict[str, Any], key: str) -> list[Any]:
    value = document.get(key, [])
    if not isinstance(value, list):
        raise QueryError(f"{key}: expected a list, got {value!r}", f"/{key}")
    return value


def _output_to_json(output: Output) -> dict[str, Any]:
    document: dict[str, Any] = {"stream": output.stream, "input": output.input}
    return document if output.files is None else document | {"files": sinks.to_json(output.files)}


def _output(document: Any, pointer: str) -> Output:
    if not isinstance(document, dict) or not all(isinstance(document.get(key), str) for key in ("stream", "input")):
        raise QueryError(f'expected {{"stream": ..., "input": ...}}, got {document!r}', pointer)
    for key in document.keys() - {"stream", "input", "files"}:
        raise QueryError(
            f"unknown key {key!r}{meant(key, ('stream', 'input', 'files'))}; an output has stream, input, files",
            f"{pointer}/{escaped(key)}",
        )
    files = document.get("files")
    return Output(document["stream"], document["input"], None if files is None else sinks.from_json(files, f"{pointer}/files"))


def options_from_json(document: Any, pointer: str = "") -> Options:
    if not isinstance(document, dict):
        raise QueryError(f"expected an object, got {document!r}", pointer)
    default = options_to_json(Options())
    for key, value in document.items():
        if key not in default:
            raise QueryError(f"unknown option {key!r}{meant(key, default)}; there are {', '.join(default)}", f"{pointer}/{escaped(key)}")
        _check_option(key, value, f"{pointer}/{key}")
    merged = default | document
    return Options(
        merged["split"],
        tuple(tuple(names) for names in merged["subqueries"]),
        None if isinstance(merged["parallelism"], dict) else merged["parallelism"],
        merged["pre_aggregation"],
        tuple(sorted(merged["balancers"].items())),
        merged["replicas"],
        merged["buckets"],
        merged["message_policy"],
        merged["rebalance"],
        merged["windows_per_row_max"],
        merged["hosts"],
        merged["recover"],
        parse_duration(merged["checkpoint"], "checkpoint"),
        merged["state_bytes_max"],
        tuple(sorted(merged["parallelism"].items())) if isinstance(merged["parallelism"], dict) else (),
        merged["exclusive"],
    )


def _span(value: Any, pointer: str) -> int:
    try:
        return parse_duration(value, "checkpoint")
    except (QueryError, TypeError, AttributeError):
        raise QueryError(f'checkpoint: expected a span of time such as "1s", got {value!r}', pointer) from None


def _is_positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _check_option(key: str, value: Any, pointer: str) -> None:
    choices = {
        "split": SPLITS,
        "pre_aggregation": PRE_AGGREGATION,
        "message_policy": MESSAGE_POLICIES,
        "rebalance": REBALANCE,
        "hosts": HOSTS,
        "recover": RECOVER,
        "exclusive": EXCLUSIVE,
    }.get(key)
    if key == "hosts" and _is_positive(value):
        return
    if choices is not None and value not in choices:
        more = ", or how many" if key == "hosts" else ""
        raise QueryError(f"{key}: expected one of {', '.join(choices)}{more}, got {value!r}", pointer)
    if key == "parallelism" and isinstance(value, dict):
        for subquery, instances in value.items():
            _check_option(key, 0 if instances is None or isinstance(instances, dict) else instances, f"{pointer}/{escaped(subquery)}")
        return
    if key in _NUMBERS and not _is_positive(value) and not (value is None and key in _MAY_BE_NONE):
        raise QueryError(f"{key}: expected a whole number of at least 1, got {value!r}", pointer)
    bounds = {"replicas": INSTANCES_MAX, "parallelism": INSTANCES_MAX, "buckets": BUCKETS_MAX}
    most = (bounds | {"windows_per_row_max": WINDOWS_PER_ROW_MAX, "state_bytes_max": HELD_BYTES_MAX}).get(key)
    if most is not None and value is not None and value > most:
        raise QueryError(f"{key}: expected at most {most}, got {value}", pointer)
    if key == "buckets" and value & (value - 1):
        raise QueryError(f"buckets: expected a power of two, got {value}", pointer)
    if key == "checkpoint":
        checked(_span(value, pointer), "checkpoint", CHECKPOINT_US_MIN, CHECKPOINT_US_MAX, pointer)
    if key == "subqueries" and not (isinstance(value, list) and all(isinstance(part, list) for part in value)):
        raise QueryError(f"subqueries: expected lists of operator names, got {value!r}", pointer)
    if key == "balancers":
        if not isinstance(value, dict):
            raise QueryError(f"balancers: expected an object from operator to balancer, got {value!r}", pointer)
        for operator, balancer in value.items():
            if balancer not in BALANCERS:
                raise QueryError(f"balancer: expected one of {', '.join(BALANCERS)}, got {balancer!r}", f"{pointer}/{escaped(operator)}")
