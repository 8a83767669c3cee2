"""The console as a command, and as a process that a local cluster keeps up.

Tests `console.py`.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from typer.testing import CliRunner

from cep.errors import ClusterError
from driver import LocalCluster
from driver.cli import app
from driver.processes.console import OwnConsole, check_console
from driver.processes.zookeeper import reserve_port
from tests.support.waiting import until

CLI = (sys.executable, "-c", "from driver.processes.command_line import main; main()")


@contextmanager
def command(*words: str) -> Iterator[str]:
    """`cep console` with these words: its first line."""
    process = subprocess.Popen([*CLI, "console", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def test_the_command_with_a_token_wants_a_secret(cluster: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token\n")
    with command("--url", cluster.rest.url, "--port", "0", "--token-file", str(tmp_path / "token")) as line:
        what, _, address = line.rpartition(" ")
        assert what == "console at"
        parts = urlsplit(address)
        assert parts.hostname == "127.0.0.1" and parts.query.startswith("secret=") and "a-token" not in line
        here = f"http://{parts.netloc}"
        assert httpx.get(here, verify=False).status_code == 401
        with httpx.Client(follow_redirects=True, verify=False) as browser:
            page = browser.get(address)
        assert page.status_code == 200 and "Machines" in page.text and "a-token" not in page.text


def test_a_token_that_is_not_there_is_said() -> None:
    done = CliRunner().invoke(app, ["console", "--token-file", "/no/such/file"])
    assert isinstance(done.exception, ClusterError) and str(done.exception).startswith("/no/such/file: [Errno 2]")


def test_a_port_that_is_taken_and_a_library_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with reserve_port() as taken:
        taken.listen()
        with pytest.raises(ClusterError, match="choose another --console-port, or 0"):
            OwnConsole.open(taken.getsockname()[1], tmp_path, False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ClusterError, match=r"pip install 'numa-cep\[console\]'"):
        check_console()


def shows(browser: httpx.Client, address: str) -> bool:
    """A connection to one that was killed breaks off."""
    with suppress(httpx.TransportError):
        return "Machines" in browser.get(address).text
    return False


@pytest.mark.long
def test_a_local_cluster_keeps_it_up() -> None:
    with LocalCluster(1, numa=False, token="a-token", console=True, pause_max_s=0.25) as cluster:
        address = cluster.facts["console"]
        with httpx.Client(follow_redirects=True) as browser:
            until(lambda: shows(browser, address))
            psutil.Process(dict(cluster.processes())["console"]).kill()
            until(lambda: shows(browser, address))
        assert httpx.get(address.partition("?")[0]).status_code == 401
        home = Path(cluster.home)
    assert not home.exists()
