"""A machine as a drawing: what of a run is bound to which core, to a node alone, or to nothing."""

from hibench.report.machine_view import machine_views
from hibench.runs.record import Placed
from tests.support.run_records import record


def test_instance_managers_stand_on_their_cores_with_what_runs_on_them():
    (view,) = machine_views([("a", record()), ("b", record())])
    assert view.labels == ("a", "b") and view.bound and view.unbound == ()
    first, second = view.nodes
    assert [core.number for core in first.cores] == [0, 1] and [core.number for core in second.cores] == [2, 3]
    assert (first.cores[0].ims, first.cores[0].instances) == (("im-0",), ("SQ1[0]", "SQ2[0]"))
    assert (second.cores[0].ims, second.cores[0].instances) == (("im-1",), ("SQ1[1]", "SQ2[1]"))
    assert first.cores[1].ims == second.cores[1].ims == first.ims == ()
    assert view.words == "2 NUMA nodes; im-0 on core 0 of node 0; im-1 on core 2 of node 1"


def test_one_that_is_bound_to_a_node_or_to_nothing():
    on_a_node, free = Placed("im-0", 1, None), Placed("im-1", None, None)
    (view,) = machine_views([("a", record(placed=(on_a_node, free)))])
    assert [node.ims for node in view.nodes] == [(), ("im-0",)]
    assert not any(core.ims for node in view.nodes for core in node.cores)
    assert [(each.ims, each.instances) for each in view.unbound] == [(("im-1",), ("SQ1[1]", "SQ2[1]"))]
    assert view.bound and view.words == "2 NUMA nodes; im-1 not bound"


def test_each_use_of_a_machine_is_drawn_once():
    nothing = record(placed=(), plan=None)
    views = machine_views([("a", record()), ("b", nothing), ("c", record())])
    assert [view.labels for view in views] == [("a", "c"), ("b",)]
    assert not views[1].bound and views[1].words == "2 NUMA nodes"
