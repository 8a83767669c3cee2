"""`cep logs`: what the processes of a local cluster say, in one: the lines of the logs in its home by their time, each with its process."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from cep.errors import ClusterError, NotFound, meant
from driver.configuration.table import URL
from driver.processes.health import reports_at
from driver.terminal import Url

LINES = 50
LOOK_S = 0.2  # between two looks at whether more has been said
_TEXT_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) ")


class LogLine(NamedTuple):
    """`time`: seconds since 1970; of a line that has none, a traceback's say, that of the line before."""

    time: float
    process: str
    text: str


def register(app: typer.Typer) -> None:
    """Adds it to the command line."""
    app.command()(logs)


def logs(
    process: Annotated[str | None, typer.Argument(help="Such as orchestrator or im-0; default: all.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Goes on with what is said from now on, until Ctrl-C.")] = False,
    count: Annotated[int, typer.Option("-n", "--lines", min=0, help="Begins with so many lines of each process.")] = LINES,
    home: Annotated[Path | None, typer.Option("--home", help="The cluster's folder; default: as its supervisor reports.")] = None,
    url: Url = URL,
) -> None:
    """Shows what the processes of a local cluster have said: the last lines of each, in the order of time."""
    followed = FollowedLogs(home or home_at(url), process)
    said = followed.last(count)
    _show(said)
    if not said and count and not follow:
        print(f"{process or 'no process'} has said {'nothing' if process else 'anything'}", file=sys.stderr)
    pause = threading.Event()
    while follow and not pause.wait(LOOK_S):
        _show(followed.more())


def home_at(url: str) -> Path:
    """Where the cluster at `url` has its logs. Raises ClusterError: no supervisor on this machine says so."""
    homes = [Path(report["home"]) for report in reports_at(url) if report.get("home")]
    if not homes:
        raise ClusterError(
            f"no local cluster at {url} has its logs on this machine: name its folder, --home DIR; of processes that were started by hand, "
            "or in containers, they are where their standard output goes"
        )
    return homes[0]


class FollowedLogs:
    """The logs in `home`, of one process or of all, and how far each has been read."""

    def __init__(self, home: Path, process: str | None = None) -> None:
        self.home, self.process = home, process
        self._read: dict[str, int] = {}  # bytes
        self._times: dict[str, float] = {}  # of the last line of each that had one
        known = [file.stem for file in self._files()]
        if process is not None and process not in known:
            raise NotFound(f"{home} has no log of a process {process!r}{meant(process, known)}; there is {', '.join(known) or 'none'}")

    def last(self, count: int) -> list[LogLine]:
        """The last lines of each."""
        return self._in_order({file.stem: self._unread(file)[-count:] if count else [] for file in self._chosen()})

    def more(self) -> list[LogLine]:
        """What has been written since."""
        return self._in_order({file.stem: self._unread(file) for file in self._chosen()})

    def _files(self) -> list[Path]:
        return sorted(self.home.glob("*.log"))

    def _chosen(self) -> Iterator[Path]:
        return (file for file in self._files() if self.process in (None, file.stem))

    def _unread(self, file: Path) -> list[str]:
        """Whole lines that have come since the last look: half a line is read when it is whole."""
        with file.open("rb") as opened:
            opened.seek(self._read.setdefault(file.stem, 0))
            whole = opened.read()
        whole = whole[: whole.rfind(b"\n") + 1]
        self._read[file.stem] += len(whole)
        return whole.decode(errors="replace").splitlines()

    def _in_order(self, said: Mapping[str, Sequence[str]]) -> list[LogLine]:
        found = [LogLine(self._time(process, text), process, text) for process, texts in said.items() for text in texts]
        return sorted(found, key=lambda line: line.time)

    def _time(self, process: str, text: str) -> float:
        time = time_of(text)
        if time is not None:
            self._times[process] = time
        return self._times.get(process, 0.0)


def time_of(text: str) -> float | None:
    """When a line was said, seconds since 1970: a document says it in UTC, a text in the time of this machine. None: it does not say."""
    if found := _TEXT_TIME.match(text):
        return datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").timestamp() + int(found[2]) / 1000
    try:
        return datetime.fromisoformat(json.loads(text)["time"]).timestamp() if text.startswith("{") else None
    except (ValueError, KeyError, TypeError):
        return None


def _show(found: Iterable[LogLine]) -> None:
    for line in found:
        print(f"{line.process:<14} {line.text}", flush=True)
