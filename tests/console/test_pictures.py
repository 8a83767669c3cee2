"""The pictures of the console: the machines, a plan, latencies, and what is wrong.

Tests `machine_map.py`, `plan_graph.py`, `heat.py`, `alarms.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from console.alarms import alarms
from console.drawing import SvgShape, line_of
from console.heat import COLUMNS, heat_map
from console.machine_map import LINES_OF_MANY, SQUARES_MAX, machine_map
from console.plan_graph import plan_graph
from console.rates import CLASSES, ClusterRates, FlowRates, QueryRates
from console.watch import Sight
from driver.top import InstanceManagerRow, InstanceRow, StepRow

EVIL = "</script><img src=x onerror=alert(1)>"
PLAN: dict[str, Any] = {
    "query": {},
    "subqueries": [{"name": "SQ1", "parallelism": 2}, {"name": "SQ2", "parallelism": 1}],
    "edges": [
        {"name": ">visits", "source": "visits", "target": "SQ1", "consumer": "visits", "balancer": "round-robin", "fields": []},
        {"name": "a>b", "source": "SQ1", "target": "SQ2", "consumer": "b", "balancer": "route-key", "fields": ["ip"]},
        {"name": "b>out", "source": "SQ2", "target": "", "consumer": "out", "balancer": "point-to-point", "fields": []},
    ],
}


def row(subquery: str, instance: int, im: str, query: str = "q", cpu: float = 0.5, steps: tuple[StepRow, ...] = ()) -> InstanceRow:
    return InstanceRow(query, subquery, instance, im, 10.0, cpu, 20.0, 0, 1.0, 0.0, "", steps)


def rates(blocked: float = 0.0) -> QueryRates:
    work = (StepRow("operator", "pick", 1_000.0, 0.25, 250.0), StepRow("read", "visits", 1_000.0, 0.5, 500.0))
    rows = (row("SQ1", 0, "im-0", steps=work), row("SQ1", 1, "im-1", steps=work), row("SQ2", 0, "im-1"))
    flows = (FlowRates("q", "a>b", "SQ1", 500.0, 9_000.0, blocked), FlowRates("q", "out", "SQ2", 5.0, 100.0, 0.0))
    return QueryRates("q", rows, flows, (FlowRates("q", "visits", "SQ1", 2_000.0, 60_000.0, 0.0),))


def sight(query: QueryRates, **more: Any) -> Sight:
    managers = (InstanceManagerRow("im-0", 0, 0, 0.95, 1 << 20), InstanceManagerRow("im-1", 1, 0, 0.2, 1 << 20))
    hosts = ({"name": "h", "instance_managers": ["im-0", "im-1"], "clock_off": False, "leaving": False},)
    known = {
        "topology": {"hosts": {"h": {"nodes": [{"id": 0, "cores": [0, 1], "memory_bytes": 1 << 30}]}}},
        "plans": {"q": PLAN},
        "hosts": hosts,
    }
    return Sight(rates=ClusterRates(100.0, {"q": query}, managers), **known | more)


def all_of(shapes: list[SvgShape]) -> Iterator[SvgShape]:
    for shape in shapes:
        yield shape
        yield from all_of(list(shape.parts))


def texts(shapes: list[SvgShape]) -> list[str]:
    return [shape.text for shape in all_of(shapes) if shape.text]


def styled(shapes: list[SvgShape], css: str) -> list[SvgShape]:
    return [shape for shape in all_of(shapes) if shape.attributes.get("class") == css]


def test_the_machines() -> None:
    shapes, height = machine_map(sight(rates()))
    assert {"host h · NUMA node 0 · 2 cores, 1.0 GiB", "im-0 · core 0", "95 % · 1.0 MiB", "q SQ1/0", "10.0/s"} <= set(texts(shapes))
    assert len(styled(shapes, "load full")) == len(styled(shapes, "load calm")) == 1
    [edge] = styled(shapes, "edge")  # SQ1/0 on im-0 to SQ2/0 on im-1; what stays at home is none
    [title] = edge.parts
    assert title.text == "im-0 → im-1: 250 rows/s, 4.4 KiB/s\nq a>b: route-key, 250 rows/s"
    assert height > 100


def test_what_is_blocked_is_red() -> None:
    shapes, _ = machine_map(sight(rates(blocked=0.6)))
    assert (len(styled(shapes, "edge blocked")), len(styled(shapes, "edge"))) == (1, 0)
    graph, _, _ = plan_graph(PLAN, rates(blocked=0.6))
    assert len(styled(graph, "edge blocked")) == 1
    assert "500/s · blocked 60 %" in texts(graph)


def test_many_instances_are_squares() -> None:
    many = QueryRates("q", tuple(row("SQ1", i, "im-0", cpu=0.001 * (i % 7)) for i in range(SQUARES_MAX + 53)))
    shapes, _ = machine_map(sight(many))
    assert len([shape for shape in all_of(shapes) if shape.tag == "a"]) == SQUARES_MAX + LINES_OF_MANY
    assert "and 47 more" in texts(shapes)


def test_a_name_leads_to_its_page_and_nowhere_else() -> None:
    evil = QueryRates(EVIL, (row("SQ1", 0, "im-0", query=EVIL),))
    shapes, _ = machine_map(sight(evil))
    [link] = [shape for shape in all_of(shapes) if shape.tag == "a"]
    assert link.attributes["href"] == "/queries/%3C%2Fscript%3E%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E"


def test_a_plan() -> None:
    shapes, width, height = plan_graph(PLAN, rates())
    said = texts(shapes)
    assert {"visits", "out", "SQ1   2 instances", "SQ2   1 instance", "2.0 k/s", "500/s", "5.0/s", "route-key"} <= set(said)
    assert {"queue 0 B · lag 1.0 s", "pick", "50.0 %", "250 µs", "read visits", "100.0 %"} <= set(said)
    assert (width, height) > (900, 70)
    wanted = ["visits", "SQ1   2 instances", "SQ2   1 instance", "out"]
    x = {shape.text: float(shape.attributes["x"]) for shape in all_of(shapes) if shape.tag == "text" and shape.text in wanted}
    assert sorted(x, key=lambda name: x[name]) == wanted


def test_latencies() -> None:
    counts = [0] * CLASSES
    counts[4], counts[7] = 100, 4
    shapes, _, height = heat_map([(1_000.0 + i, tuple(counts)) for i in range(3 * COLUMNS)])
    cells = [shape for shape in all_of(shapes) if str(shape.attributes.get("class", "")).startswith("heat")]
    assert len(cells) == 2 * COLUMNS  # of three seconds each
    assert {shape.attributes["class"] for shape in cells} == {"heat6", "heat2"}
    assert any(title.text.endswith("12 rows in 20 ms or less") for shape in cells for title in shape.parts)
    assert height > 50
    nothing, _, _ = heat_map([(1_000.0, (0,) * CLASSES)])
    assert texts(nothing) == ["no answers in this time say when their rows were created"]


def test_a_curve_has_gaps() -> None:
    assert line_of([0.0, 2.0, None, 1.0], 30, 12) == "M0.0 11.0L10.0 1.0M30.0 6.0"
    assert line_of([None], 30, 12) == line_of([], 30, 12) == ""


def query(**more: Any) -> dict[str, Any]:
    return {"name": "q", "state": "running", "cause": None, "recovery": None, "times": {}, "instances": 1, "lease_s": 0.0} | more


def child(**more: Any) -> dict[str, Any]:
    return {"name": "gateway", "state": "up", "last_deaths": [], "held_by": None} | more


def test_nothing_is_wrong() -> None:
    seen = sight(rates(), queries=(query(),), cluster={"supervisors": [{"children": [child()]}]}, at=1_000.0)
    assert alarms(seen) == []


def test_what_is_wrong() -> None:
    died = {"at": 900.0, "how": "killed by SIGKILL"}
    children = [child(state="waiting", last_deaths=[died]), child(name="im-0", last_deaths=[died])]
    children.append(child(name="im-1", held_by={"what": "operator 'f'", "since": 995.0}))
    checkpoints = {"recovering": False, "reason": "", "checkpoints": {"error": "the disk is full"}}
    failed = query(name="f", state="failed", cause={"subquery": "SQ1", "instance": 0, "cause": "no memory"})
    seen = sight(
        QueryRates("q", dead=2, flows=rates(blocked=0.5).flows),
        queries=(
            query(recovery=checkpoints),
            failed,
            query(name="r", recovery=checkpoints | {"recovering": True, "reason": "im-0 is gone"}),
        ),
        cluster={
            "supervisors": [{"children": children}],
            "no_room": "the disk is full",
            "quarantined": [{"node": "/n", "reason": "no JSON"}],
        },
        hosts=({"name": "h", "instance_managers": [], "clock_off": True, "clock_ms": 900, "leaving": True, "instances": 2},),
        error="the orchestrator cannot be reached",
        at=1_000.0,
    )
    assert [(alarm.grade, alarm.what) for alarm in alarms(seen)] == [
        ("bad", "the orchestrator cannot be reached"),
        ("bad", "the disk is full"),
        ("bad", "set aside: /n: no JSON"),
        ("bad", "gateway is waiting: killed by SIGKILL"),
        ("bad", "f has failed: SQ1: no memory"),
        ("bad", "r is recovering: im-0 is gone"),
        ("odd", "the clock of host h is 900 ms off"),
        ("odd", "host h is leaving, 2 instances on it yet"),
        ("odd", "im-0 died 100 s ago and is up again: killed by SIGKILL"),
        ("odd", "im-1 is held for 5.0 s: operator 'f'"),
        ("odd", "q: its last checkpoint could not be taken: the disk is full"),
        ("odd", "q: a>b waits for credit 50 % of the time"),
        ("odd", "q: 2 dead letters"),
        ("odd", "r: its last checkpoint could not be taken: the disk is full"),
    ]
