"""The process `cep`: it loads what its command needs, tells errors in one line, and ends at Ctrl-C without a traceback.

A role, which becomes another process, needs nothing of what clients need: without it, and without looking for garbage among what is
imported, it is there in a third of the time.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from cep.errors import CepError


def main() -> None:
    """Errors in one line, Ctrl-C without a traceback."""
    gc.disable()  # nothing of what is imported is garbage
    typer, app = import_module("typer"), _app(sys.argv[1:])
    gc.freeze()
    gc.enable()
    try:
        status = app(standalone_mode=False)  # of a command that raised typer.Exit; None of the others
    except (typer.Abort, KeyboardInterrupt):
        raise SystemExit(130) from None
    except CepError as error:
        terminal = import_module("driver.terminal")
        terminal.complain(terminal.with_pointer(error))
        raise SystemExit(1) from None
    except Exception as error:
        show, code = getattr(error, "show", None), getattr(error, "exit_code", None)
        if show is None or code is None:
            raise
        show()  # a usage error of click, or of the copy of it that newer versions of typer have
        raise SystemExit(code) from None
    raise SystemExit(status)


def _app(words: Sequence[str]) -> Any:
    """All commands; or the roles alone, if it is one of them that is asked for."""
    roles = import_module("driver.processes.roles")
    return roles.alone() if words and words[0] in roles.ROLES else import_module("driver.cli").app
