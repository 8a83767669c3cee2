"""`LocalCluster`: the real thing on this machine, for as long as a `with` block lasts."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from cep.config import TOKEN_VARIABLE
from cep.errors import ClusterError
from cep.service.access import TOKEN_BYTES
from driver.builder.own_functions import forget, module_source, register_functions
from driver.cluster import Cluster
from driver.processes.process import ending
from driver.rest import PATIENCE_S

STOP_S = 20.0


def _environment(token: str | None) -> dict[str, str]:
    """Ours, with this package on the path, and the token where no other user can read it."""
    root = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path} | ({} if token is None else {TOKEN_VARIABLE: token})


def _code(modules: Iterable[str | ModuleType], folders: list[str], functions: Sequence[Callable[..., Any]]) -> dict[str, Any]:
    """What of a cluster's configuration is about users' functions."""
    names = [module if isinstance(module, str) else module.__name__ for module in modules]
    own = module_source(functions) if functions else ""
    found = [folder for name in names if (folder := _folder_of(name, folders)) is not None]
    return {"modules": names, "module_path": list(dict.fromkeys(folders + found)), "own_functions": own}


def _folder_of(module: str, folders: Sequence[str]) -> str | None:
    """The folder of this program's path in which a module lies; None where it is found in `folders`. Raises ClusterError: nowhere."""
    first = module.partition(".")[0]
    if any(Path(folder, first).is_dir() or Path(folder, f"{first}.py").is_file() for folder in folders):
        return None
    spec = importlib.util.find_spec(first)
    if spec is None:
        where = f"neither in {', '.join(folders)} nor " if folders else ""
        what = "give its folder, module_path=[...] or --module-path DIR"
        raise ClusterError(f"module {module!r} is not found {where}where Python looks: {what}")
    if spec.submodule_search_locations:
        return str(Path(next(iter(spec.submodule_search_locations))).parent)
    return str(Path(spec.origin).parent) if spec.has_location and spec.origin else None


class LocalCluster(Cluster):
    """Starts ZooKeeper, orchestrator, metric server and instance managers, each a process, and takes them all down again.

    Args:
        instances: instance managers; None: one per core this process may use, at most 4.
        numa: bind each to a core and its NUMA node; False: no affinity, no memory policy, round-robin placement.
        data: folders under which file sources may be.
        modules: modules whose functions queries may call, by name or themselves, which this program can import or which lie in
            `module_path`.
        functions: functions and classes of this script or notebook that queries may call.
        patience_s: how long the cluster may stay without an answer before that is an error; see `driver.cluster.Cluster`.
        options: further fields of `driver.processes.supervisor.LocalConfig`, such as `rest_port`, `token`, `keep_home`.

    Raises:
        ClusterError: a part could not be started; names it, with the end of its log.
        QueryError: a function cannot be taken along; says why.
    """

    def __init__(
        self,
        instances: int | None = None,
        numa: bool = True,
        data: Iterable[str | Path] = (),
        modules: Iterable[str | ModuleType] = (),
        module_path: Iterable[str | Path] = (),
        functions: Iterable[Callable[..., Any]] = (),
        patience_s: float = PATIENCE_S,
        **options: Any,
    ) -> None:
        token = options.pop("token", None) or (secrets.token_urlsafe(TOKEN_BYTES) if options.get("tokens") else None)
        self.functions = tuple(functions)
        config = {"instances": instances, "numa": numa, "data": [str(folder) for folder in data], **options}
        config |= _code(modules, [str(Path(folder).resolve()) for folder in module_path], self.functions)
        # A session of its own: a Ctrl-C at the terminal is ours to answer, the supervisor sees the end of its stdin.
        self.supervisor = subprocess.Popen(
            [sys.executable, "-P", "-m", "driver.processes.supervisor", json.dumps(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=_environment(token),
        )
        self.asking = threading.Lock()
        try:
            self.facts = self._line()
        except BaseException:
            self._take_down()
            raise
        super().__init__(self.facts["rest"], token, patience_s, self.facts["ca"])
        self.folder = self.home
        self.rest.gone = self._gone
        register_functions(self.functions)

    @property
    def home(self) -> str:
        """The private folder with the logs."""
        return str(self.facts["home"])

    def processes(self) -> list[tuple[str, int]]:
        """(name, pid) of every process of the cluster, as of now."""
        with self.asking:
            self.check()
            assert self.supervisor.stdin is not None
            with suppress(BrokenPipeError):  # then there is no answer, which says why
                print(json.dumps({"processes": True}), file=self.supervisor.stdin, flush=True)
            return [(name, pid) for name, pid in self._line()["processes"]]

    def check(self) -> None:
        """Raises ClusterError: the supervisor has ended, and the kernel has taken all its processes with it."""
        if why := self._gone():
            raise ClusterError(why)

    def _gone(self) -> str:
        code = self.supervisor.poll()
        if code is None:
            return ""
        pid, how = self.supervisor.pid, ending(self.supervisor)
        return f"the cluster's supervisor (process {pid}) {how}, and the whole cluster with it; what is left of its logs is in {self.home}"

    def close(self) -> None:
        """Takes everything down; returns when it is gone."""
        super().close()
        forget(self.functions)
        self._take_down()

    def _line(self) -> dict[str, Any]:
        output: IO[str] | None = self.supervisor.stdout
        assert output is not None
        line = output.readline()
        if not line:
            raise ClusterError(f"the cluster's supervisor has gone, exit status {self.supervisor.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ClusterError(answer["error"])
        return answer

    def _take_down(self) -> None:
        if self.supervisor.stdin is not None and not self.supervisor.stdin.closed:
            with suppress(BrokenPipeError):
                self.supervisor.stdin.close()
        try:
            self.supervisor.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.supervisor.send_signal(signal.SIGKILL)
            self.supervisor.wait()
        if self.supervisor.stdout is not None:
            self.supervisor.stdout.close()
