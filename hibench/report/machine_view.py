"""A machine as a drawing: its nodes, their cores, and what of a run is bound where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cep.model.topology import core_list, parse_core_list
from hibench.runs.record import RunRecord


@dataclass(frozen=True)
class CoreView:
    """One core, the instance managers bound to it, and the subquery instances on them."""

    number: int
    ims: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeView:
    """One NUMA node; `ims`: instance managers bound to it but to no core."""

    number: int
    cpus: str
    distances: tuple[int, ...]
    cores: tuple[CoreView, ...]
    ims: tuple[str, ...] = ()


@dataclass(frozen=True)
class MachineView:
    """`labels`: the runs that used it so. `unbound`: instance managers that the kernel may run anywhere, with their instances."""

    labels: tuple[str, ...]
    nodes: tuple[NodeView, ...]
    unbound: tuple[CoreView, ...]

    @property
    def bound(self) -> bool:
        """Is anything bound to a core or a node?"""
        return any(node.ims or any(core.ims for core in node.cores) for node in self.nodes)

    @property
    def words(self) -> str:
        bound = [
            f"{', '.join(core.ims)} on core {core.number} of node {node.number}" for node in self.nodes for core in node.cores if core.ims
        ]
        free = [f"{', '.join(each.ims)} not bound" for each in self.unbound]
        return "; ".join([f"{len(self.nodes)} NUMA node{'s' * (len(self.nodes) > 1)}", *bound, *free])


def machine_views(runs: Sequence[tuple[str, RunRecord]]) -> list[MachineView]:
    """One for each way in which the runs (label, record) used a machine."""
    found: dict[tuple[tuple[NodeView, ...], tuple[CoreView, ...]], list[str]] = {}
    for label, record in runs:
        found.setdefault(_use(record), []).append(label)
    return [MachineView(tuple(labels), *use) for use, labels in found.items()]


def _use(record: RunRecord) -> tuple[tuple[NodeView, ...], tuple[CoreView, ...]]:
    hosted: dict[str, dict[str, list[int]]] = {}
    for instance in record.plan["instances"] if record.plan else ():
        hosted.setdefault(instance["im"], {}).setdefault(instance["subquery"], []).append(instance["index"])
    names = {im: tuple(f"{subquery}[{core_list(sorted(set(indices)))}]" for subquery, indices in of.items()) for im, of in hosted.items()}
    nodes = []
    for node in record.machine.numa_nodes:
        numbers = parse_core_list(node.cpus)
        there = [placed for placed in record.placed if placed.core in numbers or (placed.core is None and placed.node == node.number)]
        cores = tuple(_core(number, [placed.im for placed in there if placed.core == number], names) for number in numbers)
        nodes.append(NodeView(node.number, node.cpus, node.distances, cores, tuple(placed.im for placed in there if placed.core is None)))
    unbound = [placed.im for placed in record.placed if placed.core is None and placed.node is None]
    return tuple(nodes), tuple(CoreView(-1, (im,), names.get(im, ())) for im in unbound)


def _core(number: int, ims: Sequence[str], names: dict[str, tuple[str, ...]]) -> CoreView:
    return CoreView(number, tuple(ims), tuple(name for im in ims for name in names.get(im, ())))
