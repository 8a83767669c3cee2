"""What each operator of an instance has taken in, given out and cost, and each step that is no operator (`cep.dataflow.meter`).

The steps in the order in which a tuple meets them: *receive* (from the socket, decoded), *read* (of a file parsed, of a publisher judged
late or not), *operator*, *output* (balanced, gathered, encoded, sent), *sink* (written to a file). *instance* is what is left: finding
out what is next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cep.dataflow.meter import Account
from cep.dataflow.nodes import Node
from cep.dataflow.operators.operator import AggregateOperator
from cep.dataflow.outputs.sink import SinkChannel
from instance_manager.hosting import InstanceHost


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the bill; `rows_out` is None where no tuple is lost or made; `more`: figures that only some have."""

    step: str
    name: str
    account: Account
    rows_out: int | None = None
    more: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """`ns_per_row`: CPU time per tuple taken in, None where there were none."""
        account = self.account
        return {
            "name": self.name,
            "step": self.step,
            "rows_in": account.rows,
            "rows_out": account.rows if self.rows_out is None else self.rows_out,
            "batches": account.batches,
            "cpu_ns": account.cpu_ns,
            "ns_per_row": round(account.cpu_ns / account.rows, 2) if account.rows else None,
            **self.more,
        }


def step_accounts(hosted: InstanceHost) -> Iterator[Step]:
    """All of an instance: the sum of their CPU time is the instance's."""
    instance, query = hosted.instance, hosted.instance.query
    for entry in hosted.entries.values():
        yield Step("receive", entry.source.stream, entry.account)
    for name, account in hosted.ports.received.items():
        yield Step("receive", name, account)
    read = {id(node) for _, node in instance.sources}
    for node in instance.nodes:
        step = "read" if id(node) in read else "operator"
        yield Step(step, node.operator.name, node.account, node.rows_out, _more(node))
    for output in instance.outputs:
        yield Step("output", output.name.removeprefix(f"{query}/"), output.account)
        sinks = [target.channel for target in output.targets if isinstance(target.channel, SinkChannel)]
        yield from (Step("sink", output.name, sink.account) for sink in sinks)
    yield Step("instance", instance.subquery, instance.account)


def _more(node: Node) -> dict[str, int]:
    """Of pre-aggregation: the tuples that it let through one by one."""
    if isinstance(node.operator, AggregateOperator) and node.operator.spec.stage == "partial":
        return {"bypassed": node.operator.reduction.bypassed}
    return {}


@dataclass
class LoopAccounts:
    """What of the loop belongs to no instance; `rest`: finding out what is next."""

    rest: Account = field(default_factory=Account)
    commands: Account = field(default_factory=Account)
    ticks: Account = field(default_factory=Account)
    reports: Account = field(default_factory=Account)

    def settle(self, share: float) -> int:
        """The CPU time of all, in ns."""
        own = (self.rest, self.commands, self.ticks, self.reports)
        for account in own:
            account.settle(share)
        return sum(account.cpu_ns for account in own)


def settle(billed: Sequence[Step], share: float) -> int:
    """Makes CPU time of what has elapsed; that of all these steps, in ns."""
    for step in billed:
        step.account.settle(share)
    return sum(step.account.cpu_ns for step in billed)
