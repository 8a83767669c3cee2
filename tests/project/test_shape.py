"""The sizes that the house lives by: functions, classes, folders. What is larger is named here, with its reason."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.syntax import statements

PACKAGES = ("cep", "orchestrator", "instance_manager", "driver", "console", "numa_cep", "hibench", "connectors", "simulation", "benchmarks")
FUNCTION_LINES_MAX = 60
KERNEL_LINES_MAX = 80
METHODS_MAX = 25
MODULES_MAX = 25

#: Class -> why it has more methods than others.
LARGE: dict[str, str] = {
    "Expr": "an operator or a method for each thing that may be written of an expression",
    "Writer": "generated source is written by one method for each form",
    "Cluster": "what users ask of a cluster: a method for each route of REST",
    "Query": "a method for each operator of the language",
    "Publisher": "a shell around a core: what users call, what the plane calls, and waiting",
    "Subscription": "likewise, and iteration",
    "PublisherCore": "one table of what a publisher hears and is asked, and a method for each line of it",
    "PublishedSource": "opening, sending, closing, vanishing and moving of publishers, which share what is known of each",
    "SequentialState": "rows held, groups, snapshots and slices of every window that goes by rows",
    "PerRowState": "rows in and answers out, and its groups as rows, all or those that have changed, of one table",
    "WindowState": "rows in and answers out, and its panes as rows, all or those that have changed, of the same tables",
    "KeptChannel": "what is kept, sent, confirmed and gone on with of a subscription: one row of elements in the order of their numbers",
    "Publishers": "one table of what a publisher says, and what of it was taken and is covered",
    "Link": "one protocol: what is sent, what comes, what is due by the time",
    "Faults": "a method for each thing that may go wrong",
    "LinkSockets": "`Sockets`, of two transports at once, and their keys",
    "Deployments": "what may be asked of a query, and each step of its way through its life",
    "SubscriptionCore": "one table of what a subscription hears, over the attempts of its query, and a method for each line of it",
    "SimulatedCluster": "the user of a query and its clients, a step each",
    "SimulatedZooKeeper": "`Coordination` for all sessions at once, and what goes wrong with it",
    "Service": "what REST asks of the state, and the turn that answers it",
    "ClusterModel": "what is known of a cluster, and a line for each question about it",
    "AggregateSpec": "a value whose questions, each a line or two, are asked by all stages of an aggregate",
}

#: Public class that stands in two modules -> why one name is right.
TWICE: dict[str, str] = {
    "Run": "a user's test, and one process that reads in the simulation",
    "Checkpoints": "the orchestrator's part in them and an instance manager's",
    "Frame": "of a link, and what Spark calls a frame",
    "NotLeading": "the error that one side of REST raises and the other side raises for it",
    "Pattern": "of rows, an operator; and of texts, a regular expression as a table",
    "Query": "the builder, which users know, and the value that it builds",
}

Sources = Sequence[tuple[Path, ast.Module]]


@pytest.fixture(scope="module")
def sources() -> Sources:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [(path, ast.parse(path.read_text())) for path in paths]


def _is_kernel(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    named = [each.func if isinstance(each, ast.Call) else each for each in function.decorator_list]
    return any(isinstance(each, ast.Name) and each.id in ("kernel", "inlined") for each in named)


def test_functions_are_short(sources: Sources) -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {lines} lines"
        for path, tree in sources
        for node in statements(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > (KERNEL_LINES_MAX if _is_kernel(node) else FUNCTION_LINES_MAX)
    ]
    assert not long


def test_classes_with_many_methods_have_a_reason(sources: Sources) -> None:
    many = {
        node.name: f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in sources
        for node in statements(tree)
        if isinstance(node, ast.ClassDef)
        and sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body) > METHODS_MAX
    }
    assert not {name: where for name, where in many.items() if name not in LARGE}
    assert not LARGE.keys() - many.keys(), "these have become smaller: take them out of the list"


def test_public_classes_have_a_name_each(sources: Sources) -> None:
    named = [each.name for _, tree in sources for each in tree.body if isinstance(each, ast.ClassDef) and not each.name.startswith("_")]
    assert {name for name, count in Counter(named).items() if count > 1} == set(TWICE)


@pytest.mark.parametrize("package", PACKAGES)
def test_folders_are_looked_through_at_a_glance(sources: Sources, package: str) -> None:
    modules = Counter(
        path.parent.relative_to(ROOT) for path, _ in sources if path.is_relative_to(ROOT / package) and path.name != "__init__.py"
    )
    assert not {str(folder): count for folder, count in modules.items() if count > MODULES_MAX}
