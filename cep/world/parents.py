"""Whose child a process is, and what becomes of it when its parent ends (prctl of Linux)."""

from __future__ import annotations

import ctypes
import os
import signal

_PDEATHSIG, _NAME, _CHILD_SUBREAPER = 1, 15, 36
_NAME_BYTES = 15
_LIBC = ctypes.CDLL(None)  # loaded before any fork, so that a child only calls


def die_with(parent: int) -> None:
    """The kernel kills this process when the *thread* of `parent` that it belongs to ends. For the child itself, behind a fork: it ends at
    once where its parent is another one by now."""
    _LIBC.prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was told
        os._exit(1)


def adopt_orphans(wanted: bool = True) -> None:
    """Descendants whose own parent ends become this process's children."""
    _LIBC.prctl(_CHILD_SUBREAPER, int(wanted))


def be_called(name: str) -> None:
    """By which `ps` and `top` tell this process from others."""
    _LIBC.prctl(_NAME, name.encode()[:_NAME_BYTES])
