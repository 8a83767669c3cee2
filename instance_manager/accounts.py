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
from cep.dataflow.operators import AggregateOperator
from cep.dataflow.sink import MeteredSink
from instance_manager.hosting import Hosted


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


def steps(hosted: Hosted) -> Iterator[Step]:
    """All of an instance: the sum of their CPU time is the instance's."""
    instance, query = hosted.instance, hosted.instance.name.rsplit("/", 2)[0]
    for entry in hosted.entries.values():
        yield Step("receive", entry.source.stream, entry.account)
    for name, account in hosted.received.items():
        yield Step("receive", name.removeprefix(f"{query}/"), account)
    read = {id(node) for _, node in instance.sources}
    for node in instance.nodes:
        step = "read" if id(node) in read else "operator"
        yield Step(step, node.operator.name, node.account, node.rows_out, _more(node))
    for output in instance.outputs:
        yield Step("output", output.name.removeprefix(f"{query}/"), output.account)
        sinks = [target.channel for target in output.targets if isinstance(target.channel, MeteredSink)]
        yield from (Step("sink", output.name, sink.account) for sink in sinks)
    yield Step("instance", instance.subquery, instance.account)


def _more(node: Node) -> dict[str, int]:
    """Of pre-aggregation: the tuples that it let through one by one."""
    if isinstance(node.operator, AggregateOperator) and node.operator.spec.stage == "partial":
        return {"bypassed": node.operator.reduction.bypassed}
    return {}


def settle(billed: Sequence[Step], share: float) -> int:
    """Makes CPU time of what has elapsed; that of all these steps, in ns."""
    for step in billed:
        step.account.settle(share)
    return sum(step.account.cpu_ns for step in billed)
