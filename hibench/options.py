"""The options of one comparison: parsed and checked once, at the edge, and handed on whole."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hibench.errors import OptionError
from hibench.records.dataset import Dataset
from hibench.workloads import WORKLOADS
from hibench.workloads.workload import RunTerms, Workload

ENGINES = ("cep", "spark")
NUMA_MODES = ("on", "off")
RATED_SECONDS = 20
WorkloadName = StrEnum("WorkloadName", [(name, name) for name in WORKLOADS])  # type: ignore[misc]  # its names are data
_MASTER = r"local(\[(\d+|\*)\])?|spark://\S+|standalone:[1-9]\d{0,2}"
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


class Numa(StrEnum):
    on = "on"
    off = "off"
    both = "both"


@dataclass(frozen=True)
class Mode:
    """Whose numbers a run has. `rate`: records a second of an open loop, `burst` at a time; None: files, as fast as they can be read.

    reports  a latency for every record, by the clock of the last operator
    """

    name: str
    window: str
    keys: str
    rate: int | None
    burst: int
    seconds: int
    reports: bool


MODES = {
    mode.name: mode
    for mode in (
        Mode("paper", window="30s", keys="zipf:100000", rate=None, burst=1, seconds=RATED_SECONDS, reports=False),
        Mode("faithful", window="10s", keys="uniform", rate=100, burst=5, seconds=30, reports=True),
    )
}
"""`paper`: the paper's Figure 12. `faithful`: HiBench's own: 5 records every 50 ms, 10 s windows, nearly unique addresses."""


@dataclass(frozen=True)
class Pace:
    """`rate` records a second, `burst` at a time; `reports`: a latency for every record, by the clock of the last operator."""

    rate: int
    burst: int = 1
    reports: bool = False

    def whole_records(self, dataset: Dataset) -> bool:
        return self.reports and dataset.record_bytes > 0


@dataclass(frozen=True)
class Comparison:
    """What to run on what. `pace`: of an open loop; None: the files as fast as they can be read. `json_file` '-': standard output.

    master   of Spark, as in `--master`
    command  what to type to do it again
    cluster  the address of one of ours that runs already; None: one is started for each run
    """

    workload: Workload
    mode: str
    dataset: Dataset
    engines: tuple[str, ...]
    numa_modes: tuple[str, ...]
    instances: int
    cores: int
    master: str
    window_ms: int
    slide_ms: int
    pace: Pace | None
    cache: Path | None
    json_file: Path | None
    command: str = ""
    cluster: str | None = None

    def __post_init__(self) -> None:
        if self.instances < 1:
            raise OptionError(f"--instances: expected at least 1, got {self.instances}")
        if not re.fullmatch(_MASTER, self.master):
            raise OptionError(f"--master: expected local[N], spark://host:port or standalone:N, got {self.master!r}")
        if self.pace is not None:
            _expect_pace(self.pace, self.engines)
        if self.slide_ms != self.window_ms and not self.workload.slides:
            raise OptionError(f"--slide: windows of {self.workload.name!r} do not overlap; leave it out")
        if self.slide_ms > self.window_ms:
            raise OptionError(f"--slide: expected at most the window, {self.window_ms}ms, got {self.slide_ms}ms")
        expect_writable("--json", self.json_file)

    def terms(self, side: Path | None) -> RunTerms:
        """What decides the answers; `side`: where the workload's side stream lies."""
        return RunTerms(self.window_ms, self.slide_ms, self.dataset.disorder_ms, self.dataset.seed, side)


def duration_ms(option: str, text: str, least: int) -> int:
    """'30s', '500ms', '2m' or '1h' as milliseconds; OptionError unless it is one of these and at least `least` ms."""
    found = re.fullmatch(r"(\d{1,12})(ms|s|m|h)", text.strip())
    value = int(found[1]) * _UNITS_MS[found[2]] if found else -1
    if value < least:
        raise OptionError(f"{option}: expected a duration of at least {least}ms such as 30s, 500ms, 2m or 1h, got {text!r}")
    return value


def events(asked: int | None, rate: int | None, mode: Mode, workload: Workload) -> int:
    """How many records: what was asked; else what `rate` creates in the mode's time, or what the workload does in a few minutes."""
    return asked if asked is not None else workload.events if rate is None else rate * mode.seconds


def _expect_pace(pace: Pace, engines: tuple[str, ...]) -> None:
    if not 1 <= pace.rate <= 10**8:
        raise OptionError(f"--rate: expected 1 to 10**8 records a second, got {pace.rate}")
    if pace.burst < 1:
        raise OptionError(f"--burst: expected at least 1 record at a time, got {pace.burst}")
    if not pace.reports and "cep" not in engines:
        raise OptionError(
            "--rate: in the mode 'paper' only the engine 'cep' can be run at a rate (Spark reads files); got --engine spark. "
            "--mode faithful feeds Spark too"
        )


def expect_writable(option: str, file: Path | None) -> None:
    """Said before the work rather than after it; '-' is standard output. Raises OptionError."""
    if file is None or str(file) == "-":
        return
    folder = file.absolute().parent
    if file.is_dir() or not folder.is_dir() or not os.access(file if file.exists() else folder, os.W_OK):
        raise OptionError(f"{option}: expected a file that can be written, in a folder that exists, or '-'; got {str(file)!r}")
