"""The plan that a query would get now, where all may be well or it is said what is not."""

from __future__ import annotations

import logging
from collections.abc import Callable

from cep.config import ClusterConfig, node
from cep.errors import CepError
from cep.model import query as queries
from cep.model.query import Query
from cep.model.references import check_references
from cep.model.topology import Topology
from cep.plan import physical
from cep.plan.physical import FilesByStream, PhysicalPlan
from cep.plan.planner import plan as make_plan
from cep.plan.upgrading import Upgrade, upgraded
from orchestrator.sinks import check_sinks
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.desired_nodes import encode
from orchestrator.state.feeds import sources

_LOG = logging.getLogger(__name__)


def planned(
    state: ClusterState,
    query: Query,
    files: FilesByStream,
    config: ClusterConfig,
    topology: Topology,
    owner: str = "",
    instead: bool = False,
) -> PhysicalPlan:
    """For the client `owner`; `instead`: in place of the deployed query of its name, which counts as deleted. Raises Conflict, QueryError,
    PlacementError, ClusterError."""
    state.check_new(query, owner, instead)
    check_references(queries.to_json(query), config.modules)
    known, feeds = sources(state, query)
    check_sinks(state.connectors.records.values(), query, lambda: known)
    machines = state.machines(config.host, topology)
    plan = make_plan(query, known, state.workers(query.name, query.options.exclusive), machines, config.numa, files, feeds, config.recover)
    encode(node("plans", query.name), physical.to_json(plan))  # too large is said before anything has changed
    return plan


def upgrade_of(state: ClusterState, query: Query, config: ClusterConfig, fresh: bool) -> Upgrade:
    """What becomes of each part of the query of that name that is deployed. Raises NotFound, Conflict, QueryError."""
    record = state.query(query.name)
    check_references(queries.to_json(query), config.modules)
    check_sinks(state.connectors.records.values(), query, lambda: sources(state, query)[0])
    found = upgraded(state.plans[record.name], query, fresh)
    if found.plan is not None:
        encode(node("plans", query.name), physical.to_json(found.plan))
    return found


def attempted(deploy: Callable[[], object]) -> CepError | None:
    """What was wrong with one query of many; a bug that it meets is not the others'."""
    try:
        deploy()
    except CepError as error:
        return error
    except Exception as error:
        _LOG.exception("a query cannot be deployed")
        return CepError(f"{type(error).__name__}: {error}")
    return None
