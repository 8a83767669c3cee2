"""The process `cep`: errors in one line, and what it loads for which command."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cep.errors import CepError, QueryError
from driver import cli
from driver.processes.command_line import main
from tests.support.waiting import HANG_S

LOADED = """
import sys
from driver.processes.command_line import main
try:
    main()
except SystemExit as end:
    print(end.code, *sorted({"numpy", "driver.cluster", "httpx", "yaml", "cryptography.x509"} & set(sys.modules)))
"""


@pytest.mark.parametrize("error", [CepError("no hot[/x]"), QueryError("no hot[/x]", pointer="/hot[/x]")])
def test_an_error_of_any_command(error: CepError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(**_: object) -> None:
        raise error

    monkeypatch.setattr(sys, "argv", ["cep", "status"])
    monkeypatch.setattr(cli, "app", fails)
    with pytest.raises(SystemExit, match="1"):
        main()
    pointer = " (at /hot[/x])" if isinstance(error, QueryError) else ""
    assert capsys.readouterr().err == f"error: no hot[/x]{pointer}\n"


def test_a_role_loads_nothing_of_what_clients_or_another_role_need() -> None:
    """It takes longer than all else until the role's own process begins."""
    ran = subprocess.run([sys.executable, "-c", LOADED, "metric-server", "--help"], capture_output=True, text=True, timeout=HANG_S)
    assert "--log" in ran.stdout and (ran.stdout.splitlines()[-1], ran.stderr) == ("0", "")


def test_errors_of_a_role_are_those_of_any_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["cep", "metric-server"])
    with pytest.raises(SystemExit, match="1"):
        main()
    assert capsys.readouterr().err.startswith("error: ")
    monkeypatch.setattr(sys, "argv", ["cep", "metric-server", "--hot[/x]"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "hot[/x]" in capsys.readouterr().err
