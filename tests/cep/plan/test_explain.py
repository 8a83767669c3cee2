"""What a person reads of a plan.

Tests `explain.py`, `sources.py`, `cep/model/contract/phrases.py`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from cep.model.hosts import Machines
from cep.model.query import Query
from cep.model.topology import Topology
from cep.plan.explain import explain
from cep.plan.physical import Worker
from cep.plan.planner import plan
from driver import col, event, row, stream
from driver.builder import query as driver_query
from orchestrator.rest.views import observed_pre_aggregation
from tests.support import plans
from tests.support.plans import files, fixed_window, group, pick, planned, query

QUERY = """\
query per-ip
            visits  stream, published; event time ts, disorder 2s
  visits →  pick    map to ip, ts
  pick →    window  aggregate 30s by ip: visits = count(), start = first(ts), end = last(ts)
  window →  stamp   map to ip, visits, start, end, at = now()
  stamp →   per_ip  output stream
"""

TWO_WORKERS = f"""{QUERY}
subqueries, split by policy 'stateful'
  SQ1  2 instances  read visits, pick, partials of window
  SQ2  2 instances  window, stamp

edges
  visits → SQ1           round-robin                            publishers send batches in turn
  SQ1.pick → SQ2.window  route-key (ip), partials  traffic 0.2  SQ2 has state; a group's tuples meet at one instance
  SQ2.stamp → per_ip     point-to-point                         to the subscribers

pre-aggregation
  window: yes, its functions merge, so groups travel instead of tuples

placement, least traffic across NUMA distance: 2 instance managers, cost 1
  node 0  cores 0-1  im-000 … im-001  SQ1[0-1] SQ2[0-1]
"""


def test_what_was_observed_of_several_instances_is_added_up() -> None:
    """Of each figure; some that are not added up are not known before there are rows."""
    known = {"name": "window (partial)", "step": "operator", "rows_in": 7, "rows_out": 2, "ns_per_row": 1.5, "bypassed": 1}
    unknown = known | {"rows_in": 0, "rows_out": 0, "ns_per_row": None, "bypassed": 0}
    placed = [{"metrics": {"operators": [each, {"name": "SQ1", "step": "instance"}]}} for each in (unknown, unknown, known, known)]
    line = "  window (partial): 14 tuples in, 4 partial results out, 2 of them tuples let through one by one"
    assert observed_pre_aggregation(placed).splitlines() == ["", "observed", line]
    assert observed_pre_aggregation([{"metrics": None}, {}]) == ""


def test_one_node_of_two_workers() -> None:
    assert explain(planned(fixed_window())) == TWO_WORKERS


def test_bullion() -> None:
    text = explain(planned(fixed_window(), Topology.bullion_s16()))
    assert text.startswith(QUERY)
    assert text.endswith("""
placement, least traffic across NUMA distance: 288 instance managers, cost 7.30556
  node 0   cores 0-17     im-000 … im-017  SQ1[0-17] SQ2[0-17]
  node 1   cores 18-35    im-018 … im-035  SQ1[18-35] SQ2[18-35]
  node 2   cores 36-53    im-036 … im-053  SQ1[36-53] SQ2[36-53]
  node 3   cores 54-71    im-054 … im-071  SQ1[54-71] SQ2[54-71]
  node 4   cores 72-89    im-072 … im-089  SQ1[72-89] SQ2[72-89]
  node 5   cores 90-107   im-090 … im-107  SQ1[90-107] SQ2[90-107]
  node 6   cores 108-125  im-108 … im-125  SQ1[108-125] SQ2[108-125]
  node 7   cores 126-143  im-126 … im-143  SQ1[126-143] SQ2[126-143]
  node 8   cores 144-161  im-144 … im-161  SQ1[144-161] SQ2[144-161]
  node 9   cores 162-179  im-162 … im-179  SQ1[162-179] SQ2[162-179]
  node 10  cores 180-197  im-180 … im-197  SQ1[180-197] SQ2[180-197]
  node 11  cores 198-215  im-198 … im-215  SQ1[198-215] SQ2[198-215]
  node 12  cores 216-233  im-216 … im-233  SQ1[216-233] SQ2[216-233]
  node 13  cores 234-251  im-234 … im-251  SQ1[234-251] SQ2[234-251]
  node 14  cores 252-269  im-252 … im-269  SQ1[252-269] SQ2[252-269]
  node 15  cores 270-287  im-270 … im-287  SQ1[270-287] SQ2[270-287]
""")


SAYS: dict[str, tuple[Query, list[str]]] = {
    "files": (
        query(pick("m", "s"), declared=(files("s"),)),
        ["stream, 2 files of text, 1,234 bytes; event time ts", "block i is read by instance i mod n"],
    ),
    "no group": (
        query(group("a", "s")),
        ["SQ2 has one instance", "notes\n  SQ2 runs on one instance: operator 'a' has no group-by", "SQ2  1 instance "],
    ),
    "partitioned already": (
        query(group("a", "s", "ip"), group("b", "a", "ip")),
        [
            "point-to-point (ip) ",
            "traffic 0.1  partitioned so already; instance i sends to instance i",
            "b: no, rows go straight to one instance each",
        ],
    ),
    "asked for": (
        query(group("a", "s", "ip"), group("b", "a", "ip"), balancers={"b": "route-key"}),
        ["SQ2.a → SQ3.b  route-key (ip), partials  traffic 0.02  asked for"],
    ),
    "replicas": (
        fixed_window(replicas=2),
        ["publishers choose one of 2 replicas by ip; SQ1 has one instance", "SQ1  2 replicas of 1 instance  "],
    ),
    "stateless": (
        query(pick("m", "s"), pick("n", "m"), split="per-operator"),
        ["SQ2 has no state; any instance will do"],
    ),
    "user's split": (query(pick("m", "s"), subqueries=[["m"]]), ["subqueries, split as asked for"]),
    "late": (
        replace(fixed_window(), late="too_late"),
        ["late rows →  too_late  output stream", "its late rows, to the subs"],
    ),
}


@pytest.mark.parametrize("case", SAYS)
def test_it_says(case: str) -> None:
    asked, expected = SAYS[case]
    text = explain(planned(asked, plans.two_nodes(1), files={"s": (("/data/a.txt", 1_000), ("/data/b.txt", 234))}))
    for part in expected:
        assert part in text


PATTERN = """
  theft.ways →      theft           matches
  theft →           out             output stream

automaton of theft; ■ is a match
  start: shelf 0
  0 shelf: exit then 1 without pay
  1 exit: exit then 2, ■ after no back for 5s
  2 exit: ■ after no back for 5s
  each way of each start goes on by itself: a gap, or what may not come at the end, is of each way's own time

"""


def test_a_pattern_shows_where_its_ways_lead() -> None:
    tags = stream("tags", k="int64", e="string", ts="timestamp[us]", event_time="ts", disorder="0s")
    shelf, pay, exit_, back = (event(name, col("e") == name) for name in ("shelf", "pay", "exit", "back"))
    part = shelf.not_then(pay).then(exit_.times(1, 2)).absent(back, for_="5s")
    asked = (
        driver_query.Query("q").source(tags).pattern("theft", part, by="k", within="12h", measures={"at": row("exit")["ts"]}).output("out")
    )
    text = explain(planned(asked.build(), plans.two_nodes(1)))
    assert PATTERN in text
    assert "\n  tags →            theft.relevant  filter (((e = 'shelf') or (e = 'pay'))" in text
    assert "\n  SQ1.theft.relevant → SQ2.theft.ways  route-key (k)" in text
    assert (
        "pattern shelf -> !pay -> exit{1,2} -> !back for 5s by k, first match, then on past last, within 12h where shelf: e = 'shelf'"
        in text
    )


def test_a_pattern_says_how_its_rows_go_on() -> None:
    tags = stream("tags", k="int64", e="string", ts="timestamp[us]", event_time="ts", disorder="0s")
    shelf, exit_ = (event(name, col("e") == name) for name in ("shelf", "exit"))
    for part, matches, how in (
        (shelf.then(exit_), "first", "starts that await the same go on together, in 2 kinds"),
        (shelf.then_any(exit_), "all", "rows taken so far that await the same go on together, in 1 kind"),
        (shelf.then_any(exit_).gap("1h"), "all", "each way of each start goes on by itself: a gap, or what may not come at the end,"),
    ):
        measures = {"at": row("exit")["ts"]}
        asked = driver_query.Query("q").source(tags).pattern("theft", part, by="k", within="12h", matches=matches, measures=measures)
        assert f"  1 exit: ■\n  {how}" in explain(planned(asked.output("out").build(), plans.two_nodes(1)))


def test_no_numa() -> None:
    text = explain(planned(fixed_window(parallelism=1), numa=False))
    assert "placement, in turn (NUMA is off): 2 instance managers, cost 10\n" in text
    assert "  node 0  core 0  im-000  SQ1[0]\n  node 0  core 1  im-001  SQ2[0]\n" in text


def test_workers_that_are_not_bound() -> None:
    unbound = [Worker(f"im-{i}", None, None, f"ipc:///tmp/{i}") for i in range(2)]
    assert "no node  no core  im-0 … im-1  SQ1[0-1] SQ2[0-1]" in explain(plan(fixed_window(), {}, unbound, plans.one_node(2)))


def test_hosts_are_named_where_there_are_several() -> None:
    there = [Worker(f"{host}.im-{i}", 0, i, f"link://{host}@h:{i + 1}/{i}", host=host) for host in ("h1", "h2") for i in (0, 1)]
    text = explain(plan(fixed_window(), {}, there, Machines({host: plans.one_node(2) for host in ("h1", "h2")})))
    assert "  host h1  node 0  cores 0-1  h1.im-0 … h1.im-1  SQ1[0-1] SQ2[0-1]\n" in text
    assert "  host h2  node 0  cores 0-1  h2.im-0 … h2.im-1  SQ1[2-3] SQ2[2-3]\n" in text


def test_joins_by_time_say_how_far_they_look() -> None:
    s = stream("s", k=str, t="timestamp[ms]", event_time="t", disorder="0s")
    asked = driver_query.Query("q").source(s).interval_join("near", s, "-5s", "1m", on="k", prefix="r_").output("o")
    asked = asked.at("s").as_of_join("last", s, on="k", tolerance="20s", prefix="r_").output("p")
    text = explain(planned(asked.build()))
    assert "inner interval join from -5s to 1m on k" in text and "inner as-of join on k, tolerance 20s" in text


@settings(deadline=None)
@given(asked=plans.queries(), machine=plans.machines())
def test_every_instance_edge_and_operator_is_named(asked: Query, machine: Topology) -> None:
    made = planned(asked, machine)
    text = explain(made)
    assert all(line == line.rstrip() for line in text.splitlines())
    for edge in made.edges:
        assert edge.balancer in text
    for operator in asked.operators:
        assert operator.name in text
