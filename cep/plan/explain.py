"""A plan as a person reads it: the query, its subqueries, what flows between them and why, where it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cep.model.duration import format_duration
from cep.model.expr import Column, Expr
from cep.model.functions import Function
from cep.model.operators import (
    Aggregate,
    Apply,
    AsOfJoin,
    Deduplicate,
    Delay,
    Filter,
    FlatMap,
    IntervalJoin,
    Join,
    Lookup,
    Map,
    Operator,
    Sort,
    StatefulMap,
    TopN,
    Union,
)
from cep.model.query import Output
from cep.model.streams import Stream
from cep.model.topology import core_list
from cep.model.windows import SessionWindow, SizeWindow, TimeWindow, TransactionWindow, UnboundedWindow, Window
from cep.plan.physical import Edge, PhysicalPlan, Subquery, Worker
from cep.plan.place import estimated
from cep.plan.pre_aggregate import Decision, decisions
from cep.plan.split import topological
from cep.plan.types import text_of


def explain(plan: PhysicalPlan) -> str:
    """Several lines of text, in sections; every line of a section is indented."""
    sections = (
        (f"query {plan.query.name}", _query(plan)),
        (f"subqueries, split {_policy(plan)}", _subqueries(plan)),
        ("edges", _edges(plan)),
        ("pre-aggregation", (_pre_aggregation(decision) for decision in decisions(plan))),
        (f"placement, {_placement_policy(plan)}", _placement(plan)),
        ("notes", iter(plan.notes)),
    )
    return "\n\n".join("\n  ".join([title, *lines]) for title, found in sections if (lines := list(found))) + "\n"


# --- the query -------------------------------------------------------------------------------------------------------


def _query(plan: PhysicalPlan) -> Iterator[str]:
    rows = [("", name, _stream(plan, stream)) for name, stream in plan.streams.items()]
    rows += [(", ".join(o.inputs), name, _operator(o)) for name, o in topological(plan.query).items()]
    rows += [(output.input, output.stream, _output(output)) for output in plan.query.outputs]
    rows += [] if plan.query.late is None else [("late rows", plan.query.late, "output stream")]
    return _table([(f"{inputs} →" if inputs else "", name, what) for inputs, name, what in rows])


def _output(output: Output) -> str:
    files = output.files
    return "output stream" if files is None else f"output stream, and files of {files.format} in {files.folder!r}"


def _stream(plan: PhysicalPlan, stream: Stream) -> str:
    if (feed := plan.feeds.get(stream.name)) is not None:
        return f"stream, output of query {feed.query!r}, from {_counted(len(feed.producers), 'instance')}; event time is that query's"
    files = plan.files.get(stream.name)
    origin = "published" if files is None else f"{len(files)} files, {sum(size for _, size in files):,} bytes"
    if stream.event_time is None or stream.disorder is None:
        return f"stream, {origin}; event time is when a row arrives"
    return f"stream, {origin}; event time {text_of(stream.event_time)}, disorder {format_duration(stream.disorder)}{_quiet(stream)}"


def _quiet(stream: Stream) -> str:
    """What happens while nobody sends."""
    if stream.idle_after is not None:
        return f"; a publisher silent for {format_duration(stream.idle_after)} is idle: answers depend on when the stream was idle"
    return "" if stream.watermark is None else "; while nobody sends, time goes on by the publisher's clock"


def _operator(operator: Operator) -> str:
    match operator:
        case Map(fields=fields):
            return f"map to {_fields(fields)}"
        case FlatMap(fields=fields, explode=explode):
            return f"flat map to {_fields(fields)}, a tuple for each element of {explode}"
        case Filter(condition=condition):
            return f"filter {text_of(condition)}"
        case Union():
            return "union"
        case Delay(by=by):
            return f"delay by {format_duration(by)}"
        case Apply(function=function, columns=columns):
            return f"apply {function} to batches of {', '.join(columns)}"
        case Lookup(table=table, on=on):
            return f"lookup in {table.path or 'a table of the query'} on {_pairs(on)}"
        case Aggregate(window=window, by=by, functions=functions):
            called = ", ".join(f"{name} = {_function(function)}" for name, function in functions)
            return f"aggregate {_window(window)}{_by(by)}: {called}"
    return _stateful(operator)


def _stateful(operator: Operator) -> str:
    match operator:
        case Join(window=window, right_window=right, on=on, how=how, condition=condition):
            windows = _window(window) if window == right else f"{_window(window)} and {_window(right)}"
            where = "" if condition is None else f" where {text_of(condition)}"
            return f"{how} join {windows}{' on ' + _pairs(on) if on else ''}{where}"
        case IntervalJoin(on=on, how=how, lower=lower, upper=upper):
            return f"{how} interval join from {_signed(lower)} to {_signed(upper)}{' on ' + _pairs(on) if on else ''}"
        case AsOfJoin(on=on, how=how, tolerance=tolerance):
            limit = "" if tolerance is None else f", tolerance {format_duration(tolerance)}"
            return f"{how} as-of join{' on ' + _pairs(on) if on else ''}{limit}"
        case Sort(window=None):
            return "sort by event time"
        case Sort(window=TimeWindow() as window, by=by, order=order):
            return f"sort {_window(window)}{_by(by)} by {_order(order)}"
        case TopN(window=window, by=by, order=order, n=n):
            return f"first {n} of {_window(window)}{_by(by)} by {_order(order)}"
        case Deduplicate(by=by, ttl=ttl):
            return f"deduplicate{_by(by)}{'' if ttl is None else ', ttl ' + format_duration(ttl)}"
        case StatefulMap(by=by, function=function, fields=fields):
            return f"stateful map{_by(by)} to {function or _fields(fields)}"
    return type(operator).__name__


def _fields(fields: tuple[tuple[str, Expr], ...]) -> str:
    return ", ".join(name if _is(expr, name) else f"{name} = {text_of(expr)}" for name, expr in fields)


def _signed(us: int) -> str:
    return "-" * (us < 0) + format_duration(abs(us))


def _pairs(on: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(left if left == right else f"{left} = {right}" for left, right in on)


def _order(order: tuple[tuple[str, bool], ...]) -> str:
    return ", ".join(f"{name} descending" if descending else name for name, descending in order)


def _by(by: tuple[str, ...]) -> str:
    return f" by {', '.join(by)}" if by else ""


def _window(window: Window) -> str:
    match window:
        case TimeWindow(size, advance):
            return format_duration(size) + ("" if advance == size else f" every {format_duration(advance)}")
        case SizeWindow(rows, every):
            return f"{rows} rows" + ("" if every == rows else f" every {every}")
        case SessionWindow(gap):
            return f"sessions with gap {format_duration(gap)}"
        case TransactionWindow(open_, close):
            return f"transactions from {text_of(open_)} to {text_of(close)}"
        case UnboundedWindow(period, ttl):
            how = "for every tuple" if period is None else f"every {format_duration(period)}"
            return f"all so far, an answer {how}" + ("" if ttl is None else f", ttl {format_duration(ttl)}")


def _is(expression: object, name: str) -> bool:
    return isinstance(expression, Column) and expression.name == name


def _function(function: Function) -> str:
    return f"{function.name}({', '.join([*function.columns, *(f'{value:g}' for _, value in function.parameters)])})"


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
    copies = plan.query.options.replicas
    replica = f"publishers choose one of {copies} replicas by {', '.join(edge.fields)}; " if edge.fields else ""
    n = plan.subquery(edge.target).parallelism
    if n == 1:
        return f"{replica}{edge.target} has one instance"
    files = plan.streams[edge.source].files is not None
    return f"{replica}{'block i is read by instance i mod n' if files else 'publishers send batches in turn'}"


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
    return f"{how}: {_counted(len(plan.workers), 'instance manager')}, cost {plan.cost:g}"


def _placement(plan: PhysicalPlan) -> Iterator[str]:
    """One line for each run of cores at a node whose instances go up by one from core to core."""
    order = [subquery.name for subquery in plan.subqueries]
    hosted: dict[str, list[tuple[int, int]]] = {worker.im: [] for worker in plan.workers}
    for instance in plan.instances:
        hosted[instance.im].append((order.index(instance.subquery), instance.index))
    workers = sorted(plan.workers, key=lambda w: (_or_first(w.node), _or_first(w.core), w.im))
    rows = [
        (_node(run[0]), _cores(run), ims, _instances(order, [hosted[worker.im] for worker in run]))
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
        follows = last is not None and last.node == worker.node and (last.core is None) == (worker.core is None)
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
