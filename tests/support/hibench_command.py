"""The command `hibench`, in this process."""

import signal
import sys

import pytest

from hibench import cli


def hibench(capsys, *arguments):
    """Exit code and output of `hibench ARGUMENTS` in this process."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before, hook, sys.argv = sys.argv, sys.unraisablehook, ["hibench", *arguments]
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main()
    finally:
        sys.argv, sys.unraisablehook = before, hook
        for number, handler in handlers.items():
            signal.signal(number, handler)
    output = capsys.readouterr()
    return ended.value.code or 0, " ".join((output.out + output.err).split())
