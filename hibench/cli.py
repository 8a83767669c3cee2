"""The entry point of `hibench`. It imports next to nothing before Ctrl-C is taken care of.

Exit codes: 0 done and all answers equal; 1 answers differ; 2 an option makes no sense; 3 an engine or the surroundings failed;
130 Ctrl-C; 143 SIGTERM. Either signal unwinds the stack once, so every `with` takes down what it started; further
ones are ignored meanwhile. Python swallows an exception raised in a few places (hooks around a fork, finalizers); one
that met that fate is raised again a moment later.
"""

from __future__ import annotations

import signal
import sys

_AGAIN_SECONDS = 0.05


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    sys.unraisablehook = _swallowed
    from cep.errors import CepError
    from hibench.commands import app

    try:
        app()
    except CepError as error:
        print(f"hibench: {error}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 3))


def _stop(number: int, frame: object) -> None:
    """SystemExit rather than KeyboardInterrupt: nothing between here and `main` makes a traceback of it."""
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, signal.SIG_IGN)
    print("\nhibench: stopping, taking everything down …", file=sys.stderr)
    sys.exit(128 + number)


def _swallowed(unraisable: sys.UnraisableHookArgs) -> None:
    """Python's report of an exception it could not raise; ours is raised again, where it can be."""
    if not isinstance(unraisable.exc_value, SystemExit):
        sys.__unraisablehook__(unraisable)
        return
    code = unraisable.exc_value.code
    signal.signal(signal.SIGALRM, lambda number, frame: sys.exit(code))
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)


if __name__ == "__main__":
    main()
