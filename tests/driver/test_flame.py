"""`cep flame`: pictures of running instance managers by py-spy, and what it says where that cannot be.

Tests `cep/service/flame.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import xml.etree.ElementTree as xml
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cep.errors import CepError, NotFound
from cep.service.flame import record, targets
from driver import LocalCluster
from driver.cli import app
from tests.support.paths import ROOT
from tests.support.visits import rows, windows
from tests.support.waiting import until

MANAGERS = [{"id": "im-0", "pid": 11}, {"id": "im-1", "pid": 12}]


def test_an_instance_manager_or_those_of_a_query() -> None:
    assert targets("im-1", MANAGERS, ["q"], ()) == {"im-1": 12}
    assert targets("q", MANAGERS, ["q"], {"im-1", "im-0", "gone"}) == {"im-0": 11, "im-1": 12}
    with pytest.raises(NotFound, match="no instance manager 'r'; there are: 'q', 'im-0', 'im-1'"):
        targets("r", MANAGERS, ["q"], ())


def test_a_query_on_two_instance_managers_gives_two_pictures(cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.deploy(windows("hot", parallelism=2))
    asked = ["flame", "hot", "--output", str(tmp_path / "hot.svg"), "--seconds", "1", "--url", cluster.rest.url]
    files = [tmp_path / "hot-im-0.svg", tmp_path / "hot-im-1.svg"]
    over = threading.Event()
    with cluster.publisher("hot.visits", keep_open=True) as out, ThreadPoolExecutor(1) as keeping_busy:
        given = rows(100)

        def send() -> None:
            while not over.is_set():
                out.send(given)

        sent = keeping_busy.submit(send)
        try:
            until(lambda: all_drawn(CliRunner().invoke(app, asked), files))
        finally:
            over.set()
        sent.result()
    for file in files:
        assert xml.parse(file).getroot().tag.endswith("svg")


def all_drawn(told: Any, files: list[Path]) -> bool:
    """In a second of a busy machine one of the two may have done nothing."""
    assert told.exit_code == 0, told.output
    return all(re.search(rf"{file}: \d+ samples, \d+ could not be taken", told.output) for file in files)


def test_a_process_that_does_nothing_has_no_picture(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "print(1, flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as idle:
        assert idle.stdout is not None
        idle.stdout.readline()  # soon it waits for us
        said = {tmp_path / "x.svg": "not drawn, for it did nothing meanwhile"}
        until(lambda: record({"im-7": idle.pid}, 1, tmp_path / "x.svg") == said)
        idle.communicate(b"")


def test_a_process_that_is_gone_is_named(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with pytest.raises(CepError, match=r"im-7: py-spy failed: .*\n"):
        record({"im-7": ended.pid}, 1, tmp_path / "x.svg")


DENIED = """
import os, sys
from pathlib import Path
from cep.errors import CepError
from cep.service.flame import record
if os.geteuid() == 0:
    os.setgid(65534), os.setuid(65534)
try:
    record({"im-0": int(sys.argv[1])}, 1, Path(sys.argv[2]))
except CepError as error:
    print(error)
"""


def test_without_the_right_to_look_it_says_what_to_do(tmp_path: Path) -> None:
    """Into a process of root; root is `nobody` for once."""
    theirs = os.getpid() if os.geteuid() == 0 else 1
    command = [sys.executable, "-c", DENIED, str(theirs), str(tmp_path / "x.svg")]
    said = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60).stdout
    for word in (f"may not look into process {theirs}", "root", "ptrace_scope=0", "SYS_PTRACE"):
        assert word in said
