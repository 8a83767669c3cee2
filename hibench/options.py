"""The options of one comparison: parsed and checked once, at the edge, and handed on whole."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from hibench.dataset import Dataset
from hibench.errors import OptionError

ENGINES = ("cep", "spark")
NUMA_MODES = ("on", "off")
EVENTS = 10_000_000
RATED_SECONDS = 20
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


@dataclass(frozen=True)
class Comparison:
    """What to run on what. `rate`: records a second in an open loop; None: the files as fast as they can be read."""

    dataset: Dataset
    engines: tuple[str, ...]
    numa_modes: tuple[str, ...]
    instances: int
    cores: int
    window_ms: int
    rate: int | None
    cache: Path | None
    json_file: Path | None

    def __post_init__(self) -> None:
        if self.instances < 1:
            raise OptionError(f"--instances: expected at least 1, got {self.instances}")
        if self.rate is not None and not 1 <= self.rate <= 10**8:
            raise OptionError(f"--rate: expected 1 to 10**8 records a second, got {self.rate}")
        if self.rate is not None and "cep" not in self.engines:
            raise OptionError("--rate: only the engine 'cep' can be run at a rate (Spark reads files); got --engine spark")
        if self.json_file is not None:
            _expect_writable(self.json_file)


def duration_ms(option: str, text: str, least: int) -> int:
    """'30s', '500ms', '2m' or '1h' as milliseconds; OptionError unless it is one of these and at least `least` ms."""
    found = re.fullmatch(r"(\d{1,12})(ms|s|m|h)", text.strip())
    value = int(found[1]) * _UNITS_MS[found[2]] if found else -1
    if value < least:
        raise OptionError(f"{option}: expected a duration of at least {least}ms such as 30s, 500ms, 2m or 1h, got {text!r}")
    return value


def events(asked: int | None, rate: int | None) -> int:
    """How many records: what was asked; else ten million, or what `rate` creates in twenty seconds."""
    return asked if asked is not None else EVENTS if rate is None else rate * RATED_SECONDS


def _expect_writable(file: Path) -> None:
    """Said before the work rather than after it."""
    folder = file.absolute().parent
    if file.is_dir() or not folder.is_dir() or not os.access(file if file.exists() else folder, os.W_OK):
        raise OptionError(f"--json: expected a file that can be written, in a folder that exists; got {str(file)!r}")
