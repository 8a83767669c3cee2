"""Who asks, and what it may do: roles, and tokens that have them. Values only; the file of tokens is `token_file.py`.

Rules:
1. `admin` may do everything. `deploy` may do what `read` may. No other role implies another one.
2. `publish` and `subscribe` are for one stream, or for all with `*`; what is wanted for all streams only `*` allows.
3. A token is known by its hash alone. It has 256 random bits, so that no salt and no slow hash is needed.
4. Where a cluster has no tokens whatever asks is `EVERYBODY`, on loopback only (`cep.service.exposure.check_exposure`).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cep.errors import ClusterError, Forbidden
from cep.secret import Secret

KINDS = ("admin", "deploy", "publish", "subscribe", "read")
OF_STREAMS = ("publish", "subscribe")
ALL_STREAMS = "*"
_IMPLIED = {"deploy": ("read",)}

TOKEN_BYTES = 32
TOKENS_MAX = 1000
"""In one file: each request with a token compares it with all of them."""

ROLES_MAX = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")

CLUSTER_TOKEN = "cluster"
"""The name of the one token with which a cluster is started."""


@dataclass(frozen=True, slots=True, order=True)
class Role:
    """What may be done: `admin`, `deploy`, `read`, or `publish` and `subscribe` with a `stream`, which may be `*`."""

    kind: str
    stream: str = ""

    @staticmethod
    def parse(text: str) -> Role:
        """`publish:visits`, as `str` writes it. Raises ClusterError: that is no role."""
        kind, colon, stream = text.partition(":")
        if kind not in KINDS or bool(stream) != (kind in OF_STREAMS) or (colon and not stream):
            raise ClusterError(f"expected a role: admin, deploy, publish:STREAM, subscribe:STREAM or read; got {text[:100]!r}")
        return Role(kind, stream)

    def __str__(self) -> str:
        return f"{self.kind}:{self.stream}" if self.stream else self.kind

    def allows(self, wanted: Role) -> bool:
        if self.kind == "admin":
            return True
        if self.kind == wanted.kind:
            return self.stream in (wanted.stream, ALL_STREAMS)
        return wanted.kind in _IMPLIED.get(self.kind, ())


ADMIN, DEPLOY, READ = Role("admin"), Role("deploy"), Role("read")


@dataclass(frozen=True, slots=True)
class Access:
    """Whoever asks: the name of its token, and what that may do."""

    name: str
    roles: tuple[Role, ...]

    def allows(self, wanted: Role) -> bool:
        return any(role.allows(wanted) for role in self.roles)

    def has_any(self, kind: str) -> bool:
        """May it do this to some stream?"""
        return any(role.kind in ("admin", kind) for role in self.roles)

    def check(self, *wanted: Role) -> None:
        """Raises Forbidden: none of these is allowed."""
        if not any(map(self.allows, wanted)):
            raise Forbidden(f"this needs the role {' or '.join(map(str, wanted))}, which token {self.name!r} does not have")


EVERYBODY = Access("", (ADMIN,))
"""What asks a cluster without tokens."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is kept: `digest` is its SHA-256 in hex, `made` a day."""

    name: str
    digest: str
    roles: tuple[Role, ...]
    made: str = ""

    @property
    def access(self) -> Access:
        return Access(self.name, self.roles)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "sha256": self.digest, "roles": list(map(str, self.roles)), "made": self.made}

    @staticmethod
    def from_json(document: Any) -> Token:
        """Raises ClusterError: that is no token."""
        fields = ("name", "sha256", "roles", "made")
        if not isinstance(document, Mapping) or set(document) != set(fields):
            raise ClusterError(f"expected a token with {', '.join(fields)}")
        name, digest, roles, made = (document[field] for field in fields)
        if not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
            raise ClusterError("sha256: expected 64 hexadecimal digits")
        if not isinstance(made, str) or not isinstance(roles, list):
            raise ClusterError("expected a text `made` and a list of roles")
        return Token(checked_name(name), digest, checked_roles(roles), made)


def digest_of(secret: str) -> str:
    """By which it is known: its SHA-256 in hex."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def new_token(name: str, roles: Sequence[Role], made: str) -> tuple[Secret, Token]:
    """A token and what is kept of it."""
    secret = Secret(secrets.token_urlsafe(TOKEN_BYTES))
    return secret, Token(checked_name(name), digest_of(secret.text), checked_roles(map(str, roles)), made)


def cluster_token(secret: Secret) -> Token:
    """The one with which the cluster was started, which may do everything."""
    return Token(CLUSTER_TOKEN, digest_of(secret.text), (ADMIN,))


def found(presented: str, tokens: Iterable[Token]) -> Access | None:
    """What the bearer of this token may do; None: it is none of `tokens`. Takes as long for any of them."""
    digest, access = digest_of(presented), None
    for token in tokens:
        if hmac.compare_digest(token.digest, digest):
            access = token.access
    return access


def checked_name(name: Any) -> str:
    """Raises ClusterError: a token cannot be called this."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ClusterError(
            f"a token's name: expected 1 to 64 letters, digits and '._@-', the first a letter or digit; got {str(name)[:100]!r}"
        )
    return name


def checked_roles(texts: Iterable[Any]) -> tuple[Role, ...]:
    """Each once, in order. Raises ClusterError: there is none, there are too many, or one is no role."""
    roles = tuple(sorted({Role.parse(str(text)) for text in texts}))
    if not 1 <= len(roles) <= ROLES_MAX:
        raise ClusterError(f"a token has 1 to {ROLES_MAX} roles, got {len(roles)}")
    return roles
