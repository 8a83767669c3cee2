"""Options that several commands have: which records, and where they are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Seed = Annotated[int, typer.Option(help="Seed of everything random. Same options, same bytes.")]
KeysOption = Annotated[str, typer.Option(help="Source addresses: 'uniform' (HiBench's own, nearly unique) or 'zipf:N' (s = 1.0 over N).")]
RecordBytes = Annotated[int, typer.Option(help="Bytes of every record, newline included; 0: unpadded, about 133 on average.")]
EventRate = Annotated[int, typer.Option(help="Records per second of event time (not of the wall clock).")]
Disorder = Annotated[str, typer.Option(help="How far event times may lie behind the greatest before, e.g. 2s.")]
CacheOption = Annotated[
    Path | None,
    typer.Option(envvar="HIBENCH_CACHE", help="Folder for prepared records.", show_default="$XDG_CACHE_HOME/hibench or ~/.cache/hibench"),
]
