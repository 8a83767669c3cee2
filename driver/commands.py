"""How the processes of a cluster are started: their commands, and what they have in their environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cep import numa
from cep.config import InstanceManagerConfig, argument

_ROOT = Path(__file__).resolve().parent.parent
# -P: a folder of that name where the user happens to stand is not the module
INSTANCE_MANAGER = (sys.executable, "-P", "-m", "instance_manager")


def python(module: str, config: str) -> list[str]:
    """A module of ours, with its configuration."""
    return [sys.executable, "-P", "-m", module, config]


def bound(command: Sequence[str], manager: InstanceManagerConfig) -> list[str]:
    """`command` as that instance manager, at its core and node."""
    core, node = manager.core, manager.node
    prefix = [] if core is None or node is None else numa.numactl_prefix(core, node)
    return [*prefix, *command, argument(manager)]


def environment(secret: Mapping[str, str]) -> dict[str, str]:
    """Ours, with this package on the path, and what no command line should show."""
    path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **secret}
