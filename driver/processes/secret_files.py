"""Secrets in files: for their owner alone, and whole or not there."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def keep_secret(file: Path, text: str) -> None:
    """Writes `text` to `file`; what is there stays. A disk that is full, and a crash, leave no file without its text, which would be kept
    from then on.

    Raises OSError: it cannot be written.
    """
    if file.exists():
        return
    handle, unnamed = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "w") as written:
            written.write(text)
            written.flush()
            os.fsync(written.fileno())
        with suppress(FileExistsError):  # another process was first
            os.link(unnamed, file)
    finally:
        os.unlink(unnamed)
