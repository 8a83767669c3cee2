"""A console as a process of its own, on a real cluster, and names that would be scripts if a page took them for markup."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cep.config import TOKEN_VARIABLE
from driver.processes.zookeeper import reserve_port
from tests.support.paths import ROOT

#: What a page would do if it took it for markup, for a template of Vue, for a JavaScript string, or for a part of its own script.
EVIL = "</script><img src=x onerror=\"window.pwned=1\">{{constructor.constructor('window.pwned=2')()}}${window.pwned=3}`'\"\\"


@contextmanager
def console_of(url: str, folder: Path, token: str | None = None, secret: str | None = None) -> Iterator[str]:
    """Its address, as soon as it listens."""
    with reserve_port() as listener:
        listener.listen()
        told = {"url": url, "port": listener.getsockname()[1], "fd": listener.fileno()}
        if secret is not None:
            (folder / "secret").write_text(secret)
            told["secret_file"] = str(folder / "secret")
        environ = {**os.environ, "PYTHONPATH": str(ROOT)} | ({} if token is None else {TOKEN_VARIABLE: token})
        command = [sys.executable, "-P", "-m", "console", json.dumps(told)]
        with (folder / "console.log").open("wb") as log:
            process = subprocess.Popen(command, pass_fds=[listener.fileno()], env=environ, cwd=folder, stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{told['port']}"
        finally:
            process.terminate()
            process.wait(20)
