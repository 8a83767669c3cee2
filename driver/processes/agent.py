"""The instance managers of one machine, kept up (`python -m driver.processes.agent '<json>'`); the rest of the cluster is elsewhere.

It is the part of a local cluster's supervisor that a container of instance managers needs, made of the same `Children`. The agent
waits for no other process: an instance manager that finds no ZooKeeper waits for one itself. SIGTERM ends the agent, and all that it has
started.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from cep.config import InstanceManagerConfig
from cep.errors import CepError, ClusterError
from cep.service.logs import begin_logging
from driver.commands import INSTANCE_MANAGER, environment
from driver.processes.children import PAUSE_MAX_S, Children
from driver.processes.events import Events
from driver.processes.reach import KEEPER
from driver.processes.watch import HOLD_S


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """What an agent is to keep up.

    Args:
        name: the agent's own, which no other supervisor of the cluster has: its report is called so.
        managers: the instance managers; the `reports` of their cluster is the folder of the report, and of their marks.
        logs: the folder of their logs; None: they go where the agent's do.
        instance_manager: the command of an instance manager, without its configuration.
        hold_s: how long one operator may hold an instance manager before it is ended; 0: for ever.
        pause_max_s: the longest pause before one that dies again and again is started again.
    """

    name: str
    managers: tuple[InstanceManagerConfig, ...]
    logs: str | None = None
    instance_manager: tuple[str, ...] = INSTANCE_MANAGER
    hold_s: float = HOLD_S
    pause_max_s: float = PAUSE_MAX_S

    def to_json(self) -> dict[str, Any]:
        own: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        return own | {"managers": [manager.to_json() for manager in self.managers], "instance_manager": list(self.instance_manager)}

    @staticmethod
    def from_json(document: dict[str, Any]) -> AgentConfig:
        """Raises ClusterError: a field is missing or unknown."""
        try:
            managers = tuple(InstanceManagerConfig.from_json(each) for each in document["managers"])
            command = tuple(document.get("instance_manager", INSTANCE_MANAGER))
            return AgentConfig(**document | {"managers": managers, "instance_manager": command})
        except (TypeError, KeyError) as error:
            raise ClusterError(f"not the configuration of an agent: {error}") from None


def run(config: AgentConfig, keeper: Sequence[str] = ()) -> None:
    """Until a signal comes. `keeper`: the command of the process that says in ZooKeeper that this host is there; empty: there is none.

    Raises ClusterError: there is nothing to keep up, or nowhere to report.
    """
    reports = config.managers[0].cluster.reports if config.managers else None
    if reports is None:
        raise ClusterError(f"agent {config.name!r}: expected instance managers whose cluster has a folder for reports")
    begin_logging(config.name, config.managers[0].cluster.log)
    events = Events()
    events.listen()
    logs = None if config.logs is None else Path(config.logs)
    children = Children(config.name, events, logs, Path(reports), environment({}), None, config.hold_s, config.pause_max_s)
    children.started()  # it has patience from the outset: no command asks whether all are ready
    try:
        marks = Path(reports)
        managers = [replace(each, mark=each.mark or str(marks / f"{each.id}.mark")) for each in config.managers]
        children.start_managers(config.instance_manager, managers)
        if keeper:
            children.start(KEEPER, keeper)
        while not events.stopping:
            events.step()
    finally:
        children.stop()
        events.close()


def main(arguments: Sequence[str]) -> int:
    try:
        run(AgentConfig.from_json(json.loads(arguments[0]) if arguments else {}))
    except (CepError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
