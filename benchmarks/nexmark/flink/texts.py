"""The queries as Flink's SQL: our text but for what only ours says, or the suite's in a file beside this one."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.nexmark import texts

NOT_THERE = ("q6",)
"""The suite has no text of it for Flink: OVER with retractions."""

_OURS_ALONE = re.compile(r"--.*|\bSET [^;]*;|\bEMIT AT END\b")
_RESERVED = re.compile(r"\b(dateTime|(?<=AS )day|(?<=AS )minute)\b")


def flink_text(name: str) -> str:
    """In one line."""
    own = Path(__file__).with_name(f"{name}.sql")
    text = own.read_text() if own.exists() else (texts.FOLDER / f"{name}.sql").read_text()
    return " ".join(_RESERVED.sub(r"`\1`", _OURS_ALONE.sub(" ", text)).split())
