"""The file of tokens that a cluster is started with: JSON, one token a line, written whole or not at all.

It is read again when it has changed, so that a token that is added or removed counts from the next request on. A change that cannot be read
changes nothing, and is told of once; a file that is gone has no tokens.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cep.errors import ClusterError, Conflict, NotFound
from cep.secret import Secret
from cep.service.access import CLUSTER_TOKEN, EVERYBODY, TOKENS_MAX, Access, Role, Token, cluster_token, found, new_token

_LOG = logging.getLogger(__name__)
_Version = tuple[int, int, int] | None


class Tokens:
    """All tokens of a cluster: the one it was started with, and those in a file.

    Args:
        own: the one, which is an admin; None: there is none.
        file: where the others are, if it is there; None: there are no others, ever.

    Raises:
        ClusterError: the file cannot be read.
    """

    def __init__(self, own: Secret | None, file: str | Path | None = None) -> None:
        self._own = () if own is None else (cluster_token(own),)
        self._file = None if file is None else Path(file)
        self._version: _Version = None
        self._listed: tuple[Token, ...] = ()
        if self._file is not None:
            self._version = _version(self._file)
            self._listed = read_tokens(self._file)

    @property
    def are_asked_for(self) -> bool:
        """Is nothing answered without one?"""
        return bool(self._own) or self._file is not None

    def access(self, presented: str | None) -> Access | None:
        """What the bearer may do; None: there are tokens, and this is none of them."""
        if not self.are_asked_for:
            return EVERYBODY
        self._look()
        return None if presented is None else found(presented, (*self._own, *self._listed))

    def named(self, name: str) -> Access | None:
        """What the token of this name may do now; None: it is gone."""
        self._look()
        return next((token.access for token in (*self._own, *self._listed) if token.name == name), None)

    def _look(self) -> None:
        if self._file is None or (version := _version(self._file)) == self._version:
            return
        self._version = version
        try:
            self._listed = read_tokens(self._file)
        except ClusterError as error:
            _LOG.error("the tokens of before still count: %s", error)


def read_tokens(file: Path) -> tuple[Token, ...]:
    """Those in the file; none if it is not there. Raises ClusterError: it cannot be read, or others may write it."""
    try:
        with file.open("rb") as opened:
            status = os.fstat(opened.fileno())
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or status.st_uid not in (0, os.getuid()):
                raise ClusterError(f"{file}: other users may write it, so what it says does not count; do: chmod 600 {file}")
            lines = opened.read().splitlines()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ClusterError(f"{file}: the tokens cannot be read: {error.strerror}") from None
    return _checked(file, [_token(file, number, line) for number, line in enumerate(lines, 1) if line.strip()])


def add_token(file: Path, name: str, roles: Sequence[Role], made: str) -> Secret:
    """A new token, of which the file keeps the hash; it is shown this once. Raises Conflict: there is one of that name; ClusterError."""
    secret, token = new_token(name, roles, made)
    if name == CLUSTER_TOKEN:
        raise Conflict(f"{CLUSTER_TOKEN!r} is the name of the token with which the cluster was started; take another name")
    with _changing(file) as write:
        there = read_tokens(file)
        if any(each.name == name for each in there):
            raise Conflict(f"there is a token {name!r} already: remove it first, or take another name")
        write(_checked(file, [*there, token]))
    return secret


def remove_token(file: Path, name: str) -> None:
    """From the next request on it is no token. Raises NotFound; ClusterError."""
    with _changing(file) as write:
        there = read_tokens(file)
        left = [each for each in there if each.name != name]
        if len(left) == len(there):
            raise NotFound(f"there is no token {name!r} in {file}; there are {', '.join(each.name for each in there) or 'none'}")
        write(left)


def _token(file: Path, number: int, line: bytes) -> Token:
    try:
        return Token.from_json(json.loads(line))
    except ClusterError as error:
        raise ClusterError(f"{file}, line {number}: {error}") from None
    except (ValueError, RecursionError):
        raise ClusterError(f"{file}, line {number}: no JSON") from None  # what stands there may be a token


def _checked(file: Path, tokens: Sequence[Token]) -> tuple[Token, ...]:
    names = [token.name for token in tokens]
    if twice := sorted({name for name in names if names.count(name) > 1 or name == CLUSTER_TOKEN}):
        raise ClusterError(f"{file}: two tokens are called {twice[0]!r}")
    if len(tokens) > TOKENS_MAX:
        raise ClusterError(f"{file}: {len(tokens):,} tokens, expected at most {TOKENS_MAX:,}")
    return tuple(tokens)


@contextmanager
def _changing(file: Path) -> Iterator[Callable[[Sequence[Token]], None]]:
    """Alone with the file, until the block ends. Raises ClusterError: its folder cannot be written."""
    try:
        lock = os.open(file.with_name(f".{file.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ClusterError(f"{file}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lambda tokens: _write(file, tokens)
    finally:
        os.close(lock)


def _write(file: Path, tokens: Sequence[Token]) -> None:
    unnamed = file.with_name(f".{file.name}.new")
    text = "".join(json.dumps(token.to_json()) + "\n" for token in tokens)
    try:
        unnamed.unlink(missing_ok=True)  # of one that was killed
        handle = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
            if os.geteuid() == 0:  # it stays whose it was, or is the folder's owner's
                owner = (file if file.exists() else file.parent).stat()
                os.fchown(opened.fileno(), owner.st_uid, owner.st_gid)
        unnamed.rename(file)
    except OSError as error:
        raise ClusterError(f"{file}: cannot be written: {error.strerror}") from None


def _version(file: Path) -> _Version:
    """Differs where the file does; None: it is not there."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
