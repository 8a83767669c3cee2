"""A plan as a person reads it: the query, its subqueries, what flows between them and why, where it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cep.model import sinks
from cep.model.duration import format_duration
from cep.model.operators import PatternWays
from cep.model.patterns.checks import ALL
from cep.model.query import Output
from cep.model.streams import Stream
from cep.model.topology import core_list
from cep.model.types import text_of
from cep.plan.checkpoints import recovers
from cep.plan.physical import Edge, PhysicalPlan, Subquery, Worker
from cep.plan.place import estimated
from cep.plan.pre_aggregate import Decision, decisions
from cep.plan.sources import source_of
from cep.plan.split import topological


def explain(plan: PhysicalPlan) -> str:
    """Several lines of text, in sections; every line of a section is indented."""
    sections = (
        (f"query {plan.query.name}", _query(plan)),
        *_automata(plan),
        (f"subqueries, split {_policy(plan)}", _subqueries(plan)),
        ("edges", _edges(plan)),
        ("pre-aggregation", (_pre_aggregation(decision) for decision in decisions(plan))),
        (f"placement, {_placement_policy(plan)}", _placement(plan)),
        ("recovery", _recovery(plan)),
        ("notes", iter(plan.notes)),
    )
    return "\n\n".join("\n  ".join([title, *lines]) for title, found in sections if (lines := list(found))) + "\n"


# --- the query -------------------------------------------------------------------------------------------------------


def _query(plan: PhysicalPlan) -> Iterator[str]:
    rows = [("", name, _stream(plan, stream)) for name, stream in plan.streams.items()]
    rows += [(", ".join(o.inputs), name, o.explained()) for name, o in topological(plan.query).items()]
    rows += [(output.input, output.stream, _output(output)) for output in plan.query.outputs]
    rows += [] if plan.query.late is None else [("late rows", plan.query.late, "output stream")]
    return _table([(f"{inputs} →" if inputs else "", name, what) for inputs, name, what in rows])


def _automata(plan: PhysicalPlan) -> Iterator[tuple[str, Iterator[str]]]:
    """Of each pattern where a way may go on from each place, the preferred first."""
    for operator in plan.query.operators:
        if isinstance(operator, PatternWays):
            yield f"automaton of {operator.pattern_name}; ■ is a match", iter([*operator.automaton.text.splitlines(), _together(operator)])


def _together(operator: PatternWays) -> str:
    """How its starts are kept."""
    if not isinstance(operator.outlooks, str):
        return f"starts that await the same go on together, in {_kinds(len(operator.outlooks.moves))}"
    if not isinstance(operator.families, str):
        return f"rows taken so far that await the same go on together, in {_kinds(len(operator.families.steps))}"
    return f"each way of each start goes on by itself: {operator.families if operator.matches == ALL else operator.outlooks}"


def _kinds(count: int) -> str:
    return "1 kind" if count == 1 else f"{count:,} kinds"


def _recovery(plan: PhysicalPlan) -> Iterator[str]:
    """How it goes on when an instance manager dies, and why it can."""
    options = plan.query.options
    if recovers(plan):
        sources = ", ".join(f"{name}: replayable" for name in plan.streams)
        yield f"recovers: {options.recover}, a checkpoint every {format_duration(options.checkpoint)}; {sources}"


def _output(output: Output) -> str:
    return "output stream" if output.files is None else f"output stream, and {sinks.explain_sink(output.files)}"


def _stream(plan: PhysicalPlan, stream: Stream) -> str:
    origin = source_of(plan, stream.name).explain()
    if stream.name in plan.feeds:
        return f"stream, {origin}; event time is that query's"
    if stream.event_time is None or stream.disorder is None:
        return f"stream, {origin}; event time is when a row arrives"
    return f"stream, {origin}; event time {text_of(stream.event_time)}, disorder {format_duration(stream.disorder)}{_quiet(stream)}"


def _quiet(stream: Stream) -> str:
    """What happens while no publisher sends."""
    if stream.idle_after is not None:
        return f"; a publisher silent for {format_duration(stream.idle_after)} is idle: answers depend on when the stream was idle"
    return "" if stream.watermark is None else "; while no publisher sends, time goes on by the publisher's clock"


# --- subqueries and edges --------------------------------------------------------------------------------------------


def _policy(plan: PhysicalPlan) -> str:
    return "as asked for" if plan.query.options.subqueries else f"by policy {plan.query.options.split!r}"


def _subqueries(plan: PhysicalPlan) -> Iterator[str]:
    replicas = plan.query.options.replicas
    copies = f"{replicas} replicas of " if replicas > 1 else ""
    asked = {name: ", as asked for" for name, _ in plan.query.options.parallelism_of}
    rows = [(s.name, f"{copies}{_counted(s.parallelism, 'instance')}{asked.get(s.name, '')}", _content(s)) for s in plan.subqueries]
    return _table(rows)


def _content(subquery: Subquery) -> str:
    reads = [f"read {stream}" for stream in subquery.streams]
    return ", ".join([*reads, *subquery.operators, *(f"partials of {name}" for name in subquery.pre_aggregates)])


def _edges(plan: PhysicalPlan) -> Iterator[str]:
    traffic = estimated(plan)
    return _table([_edge(plan, edge, traffic[edge.name]) for edge in plan.edges])


def _edge(plan: PhysicalPlan, edge: Edge, traffic: float) -> tuple[str, ...]:
    way = f"{_place_of(edge.source, edge.producer)} → {_target(edge)}"
    return way, _balancer(edge), f"traffic {traffic:g}" if edge.is_inner else "", _why(plan, edge)


def _place_of(subquery: str, name: str) -> str:
    return name if subquery == name else f"{subquery}.{name}"


def _target(edge: Edge) -> str:
    if edge.is_output:
        return edge.consumer
    return edge.target if edge.is_input else f"{edge.target}.{edge.consumer}"


def _balancer(edge: Edge) -> str:
    key = f" ({', '.join(edge.fields)})" if edge.fields and edge.is_inner else ""
    return f"{edge.balancer}{key}{', partials' if edge.partial else ''}"


def _why(plan: PhysicalPlan, edge: Edge) -> str:
    if edge.is_output:
        return "its late rows, to the subscribers" if edge.late else "to the subscribers"
    if edge.is_input:
        return _why_input(plan, edge)
    target = plan.subquery(edge.target)
    if dict(plan.query.options.balancers).get(edge.consumer) == edge.balancer and target.parallelism > 1:
        return "asked for"
    return _why_inner(target, edge)


def _why_input(plan: PhysicalPlan, edge: Edge) -> str:
    source, n = source_of(plan, edge.source), plan.subquery(edge.target).parallelism
    among = source.among_replicas(edge.fields)
    return (f"{among}; " if among else "") + (f"{edge.target} has one instance" if n == 1 else source.shares())


def _why_inner(target: Subquery, edge: Edge) -> str:
    if target.parallelism == 1:
        return f"{target.name} has one instance"
    if edge.balancer == "route-key":
        return f"{target.name} has state; a group's tuples meet at one instance"
    if edge.fields:
        return "partitioned so already; instance i sends to instance i"
    return f"{target.name} has no state; any instance will do"


def _pre_aggregation(decision: Decision) -> str:
    return f"{decision.aggregate}: {'yes' if decision.on else 'no'}, {decision.why}"


# --- placement -------------------------------------------------------------------------------------------------------


def _placement_policy(plan: PhysicalPlan) -> str:
    how = "least traffic across NUMA distance" if plan.numa else "in turn (NUMA is off)"
    options = plan.query.options
    alone = "" if options.exclusive == "off" else f", shared with no other query ({options.exclusive})"
    polls = ", which poll" if options.message_policy == "poll" else ""
    return f"{how}: {_counted(len(plan.workers), 'instance manager')}{polls}{alone}, cost {plan.cost:g}"


def _placement(plan: PhysicalPlan) -> Iterator[str]:
    """One line for each run of cores at a node whose instances go up by one from core to core."""
    order = [subquery.name for subquery in plan.subqueries]
    hosted: dict[str, list[tuple[int, int]]] = {worker.im: [] for worker in plan.workers}
    for instance in plan.instances:
        hosted[instance.im].append((order.index(instance.subquery), instance.index))
    workers = sorted(plan.workers, key=lambda w: (w.host, _or_first(w.node), _or_first(w.core), w.im))
    rows = [
        (run[0].host and f"host {run[0].host}", _node(run[0]), _cores(run), ims, _instances(order, [hosted[worker.im] for worker in run]))
        for run in _runs(workers, hosted)
        for ims in [run[0].im if len(run) == 1 else f"{run[0].im} … {run[-1].im}"]
    ]
    return _table(rows)


def _or_first(id: int | None) -> int:
    return -1 if id is None else id


def _runs(workers: Sequence[Worker], hosted: dict[str, list[tuple[int, int]]]) -> list[list[Worker]]:
    runs: list[list[Worker]] = []
    for worker in workers:
        last = runs[-1][-1] if runs else None
        follows = last is not None and last.place == worker.place and (last.core is None) == (worker.core is None)
        if last is not None and follows and hosted[worker.im] == [(s, i + 1) for s, i in hosted[last.im]]:
            runs[-1].append(worker)
        else:
            runs.append([worker])
    return runs


def _node(worker: Worker) -> str:
    return "no node" if worker.node is None else f"node {worker.node}"


def _cores(run: Sequence[Worker]) -> str:
    cores = [worker.core for worker in run if worker.core is not None]
    return ("core " if len(cores) == 1 else "cores ") + core_list(cores) if cores else "no core"


def _instances(order: Sequence[str], hosted: Sequence[list[tuple[int, int]]]) -> str:
    columns = zip(*hosted, strict=True)
    return " ".join(f"{order[column[0][0]]}[{core_list(index for _, index in column)}]" for column in columns)


# --- text ------------------------------------------------------------------------------------------------------------


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Columns of equal width, but for the last."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join(cell for cell, width in zip(cells, widths, strict=True) if width).rstrip()
