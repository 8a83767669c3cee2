"""Servers on loopback that speak as Azure's and Google's stores do: Azurite (`npm install -g azurite`), which is Microsoft's own, and
fake-gcs-server (`go install github.com/fsouza/fake-gcs-server@latest`). Each has one bucket, `bucket`, and needs adlfs, or gcsfs."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fsspec

from tests.support.waiting import HANG_S, until

AZURITE, FAKE_GCS = shutil.which("azurite-blob"), shutil.which("fake-gcs-server")
#: The account and the key of every Azurite, which its documentation gives.
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class CloudServer:
    """A process of `command`, told its port, and `store`, which reaches it."""

    def __init__(self, folder: Path, url: str, command: Callable[[int], Sequence[str]], options: Callable[[int], dict[str, Any]]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url, self.options = url, options(port)
        with (folder / "server.log").open("wb") as log:
            self.process = subprocess.Popen(command(port), stdout=log, stderr=log, cwd=folder)
        until(lambda: _listens(port))
        self.store = fsspec.filesystem(url.removesuffix("://"), **self.options, skip_instance_cache=True, use_listings_cache=False)
        self.store.mkdir("bucket")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(HANG_S)


def azurite(folder: Path) -> CloudServer:
    here = ["--blobHost", "127.0.0.1", "--location", str(folder), "--silent", "--skipApiVersionCheck", "--disableTelemetry"]

    def options(port: int) -> dict[str, Any]:
        known = {"DefaultEndpointsProtocol": "http", "AccountName": _ACCOUNT, "AccountKey": _KEY}
        known["BlobEndpoint"] = f"http://127.0.0.1:{port}/{_ACCOUNT}"
        return {"connection_string": "".join(f"{name}={value};" for name, value in known.items())}

    return CloudServer(folder, "abfs://", lambda port: [str(AZURITE), *here, "--blobPort", str(port)], options)


def fake_gcs(folder: Path) -> CloudServer:
    def command(port: int) -> list[str]:
        own = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
        return [str(FAKE_GCS), *own, "-backend", "memory"]

    return CloudServer(folder, "gs://", command, lambda port: {"endpoint_url": f"http://127.0.0.1:{port}", "token": "anon"})


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
