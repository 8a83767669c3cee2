"""What clients have kept for queries that are over, and have not removed themselves, for they are gone (`cep.world.rings`).

The leader alone knows which queries are over. It sees the rings of its own host; on others they go with the folder of their supervisor.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from cep.world.rings import Rings
from orchestrator.records import Now
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.life_cycle import is_over

SWEEP_S = 10.0
LOG = logging.getLogger(__name__)


class RingSweep:
    """`rings`: None where there are none."""

    def __init__(self, rings: Rings | None) -> None:
        self.rings, self.due = rings, 0.0  # when it looks next, by the steady clock

    def look(self, state: ClusterState, now: Now) -> None:
        """Where a query cannot be read nothing is swept: its rings would look like those of one that is over."""
        if self.rings is None or now.steady < self.due:
            return
        self.due = now.steady + SWEEP_S
        if not state.quarantine.nodes:
            try:
                self.rings.sweep(lambda document: _is_over(state, document))
            except OSError as error:
                LOG.warning("what clients that are gone have kept cannot be swept: %s", error)


def _is_over(state: ClusterState, document: Mapping[str, Any]) -> bool:
    record = state.queries.get(str(document.get("query")))
    return record is None or record.epoch != document.get("epoch") or is_over(record.state)
