"""The bill of an instance: a line for each step, in the order in which a tuple meets them, and the CPU time of all."""

from __future__ import annotations

from cep.dataflow.meter import Account
from instance_manager.accounts import LoopAccounts, Step, settle, step_accounts
from tests.cep.dataflow.test_instance import Pass
from tests.instance_manager.test_ready import Line, at_home


def test_every_step_of_an_instance_has_a_line() -> None:
    with at_home() as loop:
        first, *_, last = Line(loop, "l", [Pass, Pass, Pass], 1 << 20).hosted
        for hosted in (first, last):
            billed = list(step_accounts(hosted))
            nodes, outputs = hosted.instance.nodes, hosted.instance.outputs
            accounts = [*(node.account for node in nodes), *(output.account for output in outputs), hosted.instance.account]
            steps = [*["operator"] * len(nodes), *["output"] * len(outputs), "instance"]
            assert [each.step for each in billed][-len(steps) :] == steps
            assert [id(each.account) for each in billed][-len(steps) :] == [id(account) for account in accounts]
            assert {each.step for each in billed[: -len(steps)]} <= {"receive"}
            assert billed[-1].name == hosted.instance.subquery and [each.name for each in billed if each.step == "operator"] == [
                node.operator.name for node in nodes
            ]


def account(rows: int, busy_ns: int) -> Account:
    made = Account()
    made.rows, made.busy_ns = rows, busy_ns
    return made


def test_what_has_elapsed_becomes_cpu_time_by_its_share() -> None:
    steps = [Step("operator", "a", account(4, 1_000)), Step("output", "b", account(0, 500), rows_out=3, more={"bypassed": 2})]
    assert settle(steps, 0.5) == 750
    one, other = (step.to_json() for step in steps)
    assert (one["cpu_ns"], one["ns_per_row"], one["rows_in"], one["rows_out"]) == (500, 125.0, 4, 4)
    assert (other["cpu_ns"], other["ns_per_row"], other["rows_out"], other["bypassed"]) == (250, None, 3, 2)
    loop = LoopAccounts(rest=account(0, 100), ticks=account(0, 300))
    assert loop.settle(0.25) == 100
