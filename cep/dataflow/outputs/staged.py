"""A file that is being written, under a name that is not looked for, in the folder where it will be shown."""

from __future__ import annotations

import io
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cep.errors import ClusterError
from cep.world.store import File, append_all

#: So much is written with one call, at multiples of it: pages in memory are as large as a call and its place allow. Those of 2 MiB are
#: what a virtual machine's host takes back first and a guest pays for when it uses them again; calls at odd places get many small ones.
WRITE_BYTES = 128 << 10

SUFFIX = ".staged"
_ATTEMPT = re.compile(r"(?:\.attempt-([0-9]+))?\.staged\Z")


@dataclass(frozen=True, slots=True)
class Staged:
    """A whole file that is not shown yet."""

    path: str
    bytes: int


def staged_name(name: str, attempt: int = 0) -> str:
    """`attempt`: of a query that has recovered so often; what an earlier one left behind is not in its way."""
    return f".{name}{f'.attempt-{attempt}' if attempt else ''}{SUFFIX}"


def attempt_of(name: str) -> int:
    """Which attempt began that staged file."""
    found = _ATTEMPT.search(name)
    return int(found[1] or 0) if found else 0


def final(path: str) -> str:
    """The path at which a staged file is shown."""
    folder, name = os.path.split(path)
    return os.path.join(folder, _ATTEMPT.sub("", name.removeprefix(".")))


class Appending(io.RawIOBase):
    """Writes at the end of a file, all that it is given. Raises ClusterError where it cannot. One that was abandoned writes nothing more,
    whatever it is given: a writer of Arrow's that is freed writes the end of its file."""

    def __init__(self, file: File, path: str) -> None:
        super().__init__()
        self.file, self.path, self.bytes = file, path, 0
        self.abandoned = False

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.bytes

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if self.abandoned:
            return len(view)
        first = WRITE_BYTES - self.bytes % WRITE_BYTES
        try:
            for start, stop in pairwise([0, *range(first, len(view), WRITE_BYTES), len(view)]):
                append_all(self.file, view[start:stop])
        except OSError as error:
            raise ClusterError(f"file {self.path!r} cannot be written: {error.strerror}") from error
        self.bytes += len(view)
        return len(view)

    def abandon(self) -> None:
        """What was written stays as it is; whether the file can be closed changes nothing."""
        self.abandoned = True
        with suppress(OSError):
            self.file.close()

    def close(self) -> None:
        if not self.closed and not self.abandoned:
            super().close()
            self.file.close()
