"""Where the instance managers of a query spend their time, as a picture, by the sampling profiler py-spy: `cep flame` and REST.

py-spy reads the memory of a running process: nothing is compiled into the engine for it, and what is not being looked at pays nothing. It
is an extra (`pip install 'numa-cep[profile]'`). It needs the right to look into another process (ptrace), which Linux gives to root, and
to the same user only where `kernel.yama.ptrace_scope` is 0; in a container it is the capability SYS_PTRACE.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from cep.errors import CepError, NotFound, counted

RATE_HZ = 100
PATIENCE_S = 60.0
"""Beyond the time asked for: to find the symbols, and to draw."""

_IDLE = "No stack counts found"
_NO_PROFILER = "py-spy is not installed; it is an extra: pip install 'numa-cep[profile]'"
_NO_RIGHT = (
    "may not look into process {pid}: run the command as root, or allow it: `sysctl kernel.yama.ptrace_scope=0`, "
    "in a container `--cap-add SYS_PTRACE`. py-spy said: {said}"
)


def targets(wanted: str, managers: Sequence[Mapping[str, Any]], queries: Sequence[str], hosts: Collection[str]) -> dict[str, int]:
    """Instance manager -> process id: of the one named `wanted`, or of `hosts`, which host the query of that name.

    Raises:
        NotFound: neither is there.
    """
    pids = {manager["id"]: int(manager["pid"]) for manager in managers}
    if wanted not in pids and wanted not in queries:
        known = ", ".join(map(repr, [*sorted(queries), *sorted(pids)]))
        raise NotFound(f"there is no query and no instance manager {wanted!r}; there are: {known or 'none'}")
    return {im: pids[im] for im in ([wanted] if wanted in pids else sorted(hosts)) if im in pids}


def record(found: Mapping[str, int], seconds: float, output: Path, native: bool = False) -> dict[Path, str]:
    """Samples the processes at the same time and draws each; one file each, which are named after them if there are several. File ->
    how many samples it is made from, or that there is none, for the process was idle.

    Args:
        seconds: for how long.
        output: an .svg file.
        native: frames of C libraries too; then the process is stopped for every sample, and threads that wait are in the picture.

    Raises:
        CepError: py-spy is not there, may not look, or failed; says why and what to do.
    """
    files = _files(found, output)
    profiler = _profiler()
    commands = {im: [profiler, *_arguments(found[im], seconds, files[im], native)] for im in found}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    runs = {im: subprocess.Popen(command, **pipes) for im, command in commands.items()}
    made = {}
    try:
        for im, run in runs.items():
            said, _ = run.communicate(timeout=seconds + PATIENCE_S)
            if _IDLE in said:
                made[files[im]] = "not drawn, for it did nothing meanwhile"
                continue
            if run.returncode:
                raise _failure(im, found[im], said)
            made[files[im]] = _samples(said)
    except subprocess.TimeoutExpired:
        raise CepError(f"py-spy did not come to an end within {seconds + PATIENCE_S:g} s") from None
    finally:
        for run in runs.values():
            run.kill()
            run.wait()
    return made


def pictures_of(found: Mapping[str, int], seconds: float) -> dict[str, tuple[str, str]]:
    """As `record`: instance manager -> how many samples, and the picture as SVG; empty where there is none. Raises CepError."""
    with tempfile.TemporaryDirectory(prefix="cep-flame-") as folder:
        output = Path(folder, "flame.svg")
        said = record(found, seconds, output)
        return {im: (said[file], file.read_text() if file.exists() else "") for im, file in _files(found, output).items()}


def _files(found: Mapping[str, int], output: Path) -> dict[str, Path]:
    return {im: output if len(found) == 1 else output.with_stem(f"{output.stem}-{im}") for im in found}


def _arguments(pid: int, seconds: float, output: Path, native: bool) -> list[str]:
    how = "--native" if native else "--nonblocking"
    sampling = ["--pid", str(pid), "--duration", str(max(1, round(seconds))), "--rate", str(RATE_HZ), "--function", how]
    return ["record", *sampling, "--format", "flamegraph", "--output", str(output)]


def _samples(said: str) -> str:
    """How many samples there are of threads that were not waiting; fewer where the profiler could not keep up."""
    found = re.search(r"Samples: (\d+) Errors: (\d+)", said)
    counts = f"{counted(int(found[1]), 'sample')}, {found[2]} could not be taken" if found else "no samples"
    return counts + (f", {RATE_HZ} a second were too many" if "behind in sampling" in said else "")


def _profiler() -> str:
    """Beside this Python, or on the PATH."""
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise CepError(_NO_PROFILER)
    return found


def _failure(im: str, pid: int, said: str) -> CepError:
    said = said.partition("Stack backtrace")[0].strip()
    denied = "permission denied" in said.lower() or "not permitted" in said.lower()
    return CepError(f"{im}: " + (_NO_RIGHT.format(pid=pid, said=said) if denied else f"py-spy failed: {said}"))
