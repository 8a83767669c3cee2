"""What speaks on a Unix socket: the kernel says which user's process it is, whatever that says of itself.

Processes of this user and of root are listened to, of the socket's owner, and of the users whose numbers the environment lists
(`CEP_UIDS=1000,1001`), where a cluster's processes and its clients are several users'.
"""

from __future__ import annotations

import logging
import os
import socket
from functools import cache
from struct import Struct

UIDS_VARIABLE = "CEP_UIDS"
_CREDENTIALS = Struct("iII")  # struct ucred: pid, uid, gid
_LOG = logging.getLogger(__name__)


@cache
def welcome() -> frozenset[int]:
    """The users whose processes may speak."""
    listed = os.environ.get(UIDS_VARIABLE, "").split(",")
    return frozenset((0, os.getuid(), *(int(uid) for uid in listed if uid.strip().isdecimal())))


def may_speak(connection: socket.socket) -> bool:
    """Is the process that has connected one of them? Where not, a line in the log names it. A socket of another kind has no such user."""
    if connection.family != socket.AF_UNIX:
        return True
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    if uid in welcome() or uid == _owner(connection):
        return True
    _LOG.warning(
        "process %d of user %d is refused at %r: %s names the users that may speak here", pid, uid, _name(connection), UIDS_VARIABLE
    )
    return False


def _owner(connection: socket.socket) -> int | None:
    """Whose our end of it is: root leaves its sockets to the owner of their folder, and waits for that user's processes."""
    try:
        return os.stat(connection.getsockname()).st_uid
    except OSError:
        return None


def _name(connection: socket.socket) -> str:
    try:
        return str(connection.getsockname())
    except OSError:
        return "a socket"
