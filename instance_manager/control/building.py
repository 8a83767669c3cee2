"""An instance that is assigned to us, built: compiled, wired, and made ready for its fast path. It touches no socket and no ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cep.errors import ProtocolError
from cep.plan.physical import PhysicalPlan, Worker
from cep.transport.endpoints import host_of
from instance_manager.control.assignment_checks import Assignment
from instance_manager.fast_path.form import prepare
from instance_manager.hosting import InstanceHost, Preparation


def built(
    preparation: Preparation,
    assignment: Assignment,
    found: PhysicalPlan | ProtocolError | None,
    publishers: Mapping[str, Sequence[str]],
) -> InstanceHost:
    """Raises whatever is wrong with its plan, or with the functions of users that it calls."""
    if not isinstance(found, PhysicalPlan):
        raise found or ProtocolError(f"there is no plan of query {assignment.query!r}")
    config, plan = preparation.config, found
    if assignment.arrives_at(config.id):
        # As the plan will be when the instance is here; it is written so when that has come about.
        here = Worker(config.id, config.node, config.core, config.endpoint, host=host_of(config.endpoint))
        plan = plan.with_instance_at(assignment.subquery, assignment.instance, here)
    hosted = preparation.prepare(plan, assignment, inbound_channels(plan, config.id), publishers)
    prepare(hosted)
    return hosted


def inbound_channels(plan: PhysicalPlan, im: str) -> int:
    """How many channels of a plan end at an instance manager: they share its budget."""
    here = {(i.subquery, i.index) for i in plan.instances if i.im == im}
    fed = [plan.feeds[stream] for name, _ in here for stream in plan.subquery(name).streams if stream in plan.feeds]
    return sum(len(feed.producers) for feed in fed) + sum(
        (edge.target, j) in here for edge in plan.edges if edge.is_inner for _, j in plan.channels(edge)
    )
