"""Queries, machines and workers for the tests of planning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from cep.errors import QueryError
from cep.model.expr import col, now
from cep.model.functions import Function, count, first, last
from cep.model.operators import Aggregate, Filter, Map, Operator, Union
from cep.model.query import Options, Output, Query, options_from_json
from cep.model.schema import Schema
from cep.model.streams import Stream, TextFiles
from cep.model.topology import NumaNode, Topology
from cep.model.windows import TIME
from cep.plan.physical import PhysicalPlan, Worker
from cep.plan.planner import plan
from cep.plan.split import split

SCHEMA = Schema.of({"ip": str, "url": str, "bytes": "int64", "price": "float64", "ts": "timestamp[ms]"})


def stream(name: str, **declared: Any) -> Stream:
    return Stream(name, SCHEMA, col("ts"), 2_000_000, **declared)


def files(name: str) -> Stream:
    return stream(name, files=TextFiles(("/data/*.txt",)))


def pick(name: str, input_: str, **renamed: str) -> Map:
    """A Map that passes all columns of SCHEMA, those of `renamed` from others."""
    return Map(name, input_, tuple((field, col(renamed.get(field, field))) for field in SCHEMA.names))


def keep(name: str, input_: str) -> Filter:
    return Filter(name, input_, col("bytes") > 0)


def group(name: str, input_: str, *by: str, functions: tuple[tuple[str, Function], ...] = (("n", count()),)) -> Aggregate:
    return Aggregate(name, input_, TIME("30s"), by, functions)


def query(*operators: Operator, outputs: tuple[str, ...] = (), declared: tuple[Stream, ...] = (), **options: Any) -> Query:
    """`outputs` name what is put out, by default what is not read. Streams not `declared` are published."""
    made = {operator.name for operator in operators}
    read = list(dict.fromkeys(name for operator in operators for name in operator.inputs))
    out = outputs or tuple(operator.name for operator in operators if operator.name not in read)
    known = {stream.name: stream for stream in declared}
    streams = dict.fromkeys(name for name in (*read, *out) if name not in made)
    return Query(
        "q",
        tuple(known.get(name, stream(name)) for name in streams),
        operators,
        tuple(Output(f"{name}_out", name) for name in out),
        options=options_from_json(options),
    )


def fixed_window(**options: Any) -> Query:
    """The query of the README and of the paper's Figure 12: pick, window, and a final map that adds the time."""
    visits = Stream("visits", Schema.of({"ip": str, "ts": "timestamp[ms]"}), col("ts"), 2_000_000)
    functions = (("visits", count()), ("start", first("ts")), ("end", last("ts")))
    final = (("ip", col("ip")), ("visits", col("visits")), ("start", col("start")), ("end", col("end")), ("at", now()))
    return Query(
        "per-ip",
        (visits,),
        (
            Map("pick", "visits", (("ip", col("ip")), ("ts", col("ts")))),
            Aggregate("window", "pick", TIME("30s"), ("ip",), functions),
            Map("stamp", "window", final),
        ),
        (Output("per_ip", "stamp"),),
        options=options_from_json(options),
    )


def figure_3() -> Query:
    """The paper's Figure 3 as far as its operators exist: 2 streams, 8 operators, SL and SF.

    s ─ m1 ─ f1 ─ a1 ─ m2 ─┐
                            ├─ u ─ f3 ─ a2
    t ─ f2 ────────────────┘
    """
    back = tuple((name, col("ip") if name == "ip" else col("n")) for name in ("ip", "n"))
    return query(
        pick("m1", "s"),
        keep("f1", "m1"),
        group("a1", "f1", "ip"),
        Map("m2", "a1", back),
        Map("f2", "t", (("ip", col("ip")), ("n", col("bytes")))),
        Union("u", ("m2", "f2")),
        Filter("f3", "u", col("n") > 1),
        group("a2", "f3", "ip"),
    )


def workers(topology: Topology, capacity: float = 1.0) -> tuple[Worker, ...]:
    """One on each core."""
    return tuple(Worker(f"im-{c:03}", n.id, c, f"ipc:///tmp/{c}", capacity) for n in topology.nodes for c in n.cores)


def one_node(cores: int) -> Topology:
    return Topology.one_node(range(cores))


def two_nodes(cores: int, away: int = 20) -> Topology:
    """Two nodes of `cores` cores each."""
    nodes = tuple(NumaNode(i, tuple(range(i * cores, (i + 1) * cores)), 0) for i in range(2))
    return Topology(nodes, ((10, away), (away, 10)))


def planned(asked: Query, topology: Topology | None = None, **arguments: Any) -> PhysicalPlan:
    """On two workers of one node unless told otherwise."""
    machine = topology or one_node(2)
    return plan(asked, {}, workers(machine), machine, **arguments)


@st.composite
def queries(draw: DrawFn, operators_max: int = 6) -> Query:
    """Any DAG of operators, all of it put out, with any split that it allows."""
    count_ = draw(st.integers(0, operators_max))
    operators: list[Operator] = []
    wide = ["s", "t"]  # what has SCHEMA
    for i in range(count_):
        name, inputs = f"o{i}", st.sampled_from(tuple(wide[-3:]))  # deep rather than wide
        kind = draw(st.sampled_from(("map", "filter", "union", "aggregate", "aggregate")))
        match kind:
            case "map":
                renamed = draw(st.sampled_from(({}, {"url": "ip"}, {"url": "ip", "ip": "url"})))
                operators.append(pick(name, draw(inputs), **renamed))
            case "filter":
                operators.append(keep(name, draw(inputs)))
            case "union":
                operators.append(Union(name, tuple(draw(st.lists(inputs, min_size=2, max_size=2, unique=True)))))
            case "aggregate":
                by = draw(st.lists(st.sampled_from(("ip", "url")), max_size=2, unique=True))
                rest = tuple((field, last(field)) for field in SCHEMA.names if field not in by)
                operators.append(group(name, draw(inputs), *by, functions=rest))
                widened = f"{name}w"
                operators.append(pick(widened, name))
                name = widened
        wide.append(name)
    asked = query(*operators, outputs=() if operators else ("s",))
    own = draw(subqueries(asked)) if draw(st.booleans()) else ()
    late = draw(st.sampled_from((None, "late"))) if len(asked.streams) == 1 else None
    return replace(asked, late=late, options=replace(draw(options()), subqueries=own))


@st.composite
def subqueries(draw: DrawFn, asked: Query) -> tuple[tuple[str, ...], ...]:
    """A user's own split, if the one drawn is sound; otherwise none."""
    groups: dict[int, list[str]] = {}
    for operator in asked.operators:
        groups.setdefault(draw(st.integers(0, 2)), []).append(operator.name)
    own = tuple(map(tuple, groups.values()))
    try:
        split(replace(asked, options=Options(subqueries=own)))
    except QueryError:
        return ()
    return own


def options() -> st.SearchStrategy[Options]:
    return st.builds(
        Options,
        split=st.sampled_from(("stateful", "single", "per-operator")),
        parallelism=st.none() | st.integers(1, 4),
        pre_aggregation=st.sampled_from(("auto", "on", "off")),
        buckets=st.sampled_from((16, 4096)),
    )


def machines() -> st.SearchStrategy[Topology]:
    return st.sampled_from((one_node(1), one_node(3), two_nodes(2)))
