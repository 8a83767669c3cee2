"""Which role each route needs: the one table. A route that is not in it cannot be served (`check_table`).

Rules:
1. What changes queries, streams or placement needs `deploy`; what shows a query's rows, dead letters among them, does so too.
2. Rows go in with `publish` and come out with `subscribe` for that stream, whose name is in the path, in the body, or found out (`OWN`).
3. What concerns the cluster as a whole, its keys and the record of requests, needs `admin`; so do connectors, which reach what their
   process does. All else that is only looked at, `read`.
4. The description of REST needs a token, and no role; `/cluster` tells one without `read` where sockets are. `/health` needs nothing, and
   says little without a token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cep.errors import Forbidden
from cep.service.access import OF_STREAMS, Access, Role

PATH, BODY, OWN = "path", "body", "own"
"""Where the name of the stream is: in the path as `name`; in the body, a list of names or of objects with `stream`; or the route itself
leaves out what the token is not for."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a route asks for.

    Args:
        kinds: kinds of roles, of which one is enough; none: any token, or where `open`, nothing.
        where: the stream's name, for kinds that are for one stream.
        audited: what the audit log calls it; empty: it changes nothing that is noted there.
    """

    kinds: tuple[str, ...] = ()
    where: str = ""
    audited: str = ""
    open: bool = False

    def check(self, access: Access, path: Mapping[str, Any]) -> None:
        """Before the request is looked at. Raises Forbidden: the token has none of the roles."""
        if self.where == PATH:
            access.check(*self.roles_for(str(path["name"])))
        elif self.where and not any(map(access.has_any, self.kinds)):
            raise Forbidden(
                f"this needs the role {' or '.join(f'{kind}:STREAM' for kind in self.kinds)}, which token {access.name!r} lacks"
            )
        elif self.kinds and not self.where:
            access.check(*map(Role, self.kinds))

    def check_body(self, access: Access, body: Any) -> None:
        """Once the body has been read. Raises Forbidden: it names a stream that the token is not for."""
        if self.where != BODY or not isinstance(body, list):
            return
        for each in body:
            name = each.get("stream") if isinstance(each, dict) else each
            if isinstance(name, str):  # what is no name is refused for that
                access.check(*self.roles_for(name))

    def roles_for(self, stream: str) -> tuple[Role, ...]:
        return tuple(Role(kind, stream) if kind in OF_STREAMS else Role(kind) for kind in self.kinds)

    @property
    def words(self) -> str:
        """As documents have it."""
        if self.open:
            return "nothing"
        shown = (f"{kind}:STREAM" if kind in OF_STREAMS else kind for kind in self.kinds)
        return " or ".join(shown) or "any token"


def _read(*also: str, where: str = "") -> Need:
    return Need(("read", *also), where)


def _deploy(audited: str = "") -> Need:
    return Need(("deploy",), audited=audited)


def _admin(audited: str = "") -> Need:
    return Need(("admin",), audited=audited)


_PUBLISH, _SUBSCRIBE = Need(("publish",), PATH), Need(("subscribe",), PATH)

ROUTES: dict[tuple[str, str], Need] = {
    ("POST", "/queries"): _deploy("deploy"),
    ("GET", "/queries"): _read(),
    ("GET", "/queries/{name}"): _read(),
    ("DELETE", "/queries/{name}"): _deploy("delete"),
    ("GET", "/queries/{name}/plan"): _read(),
    ("GET", "/queries/{name}/explain"): _read(),
    ("GET", "/queries/{name}/dead-letters"): _deploy(),
    ("POST", "/queries/{name}/start"): _deploy("start"),
    ("POST", "/queries/{name}/stop"): _deploy("stop"),
    ("POST", "/queries/{name}/rebalance"): _deploy("rebalance"),
    ("POST", "/queries/{name}/move"): _deploy("move"),
    ("POST", "/queries/{name}/scale"): _deploy("scale"),
    ("POST", "/queries/{name}/upgrade"): _deploy("upgrade"),
    ("POST", "/queries/{name}/flame"): _deploy("flame"),
    ("POST", "/queries:bulk"): _deploy("deploy"),
    ("POST", "/queries:wait"): _read(),
    ("GET", "/applications"): _read(),
    ("GET", "/applications/{name}"): _read(),
    ("PUT", "/applications/{name}"): _deploy("apply"),
    ("DELETE", "/applications/{name}"): _deploy("forget"),
    ("POST", "/explain"): _deploy(),
    ("POST", "/preview"): _deploy("preview"),
    ("GET", "/preview/{name}/answers"): _deploy(),
    ("GET", "/streams"): _read(),
    ("GET", "/streams/{name}"): _read("publish", "subscribe", where=PATH),
    ("PUT", "/streams/{name}"): _deploy("declare"),
    ("DELETE", "/streams/{name}"): _deploy("undeclare"),
    ("GET", "/streams/{name}/readers"): _PUBLISH,
    ("POST", "/streams/{name}/publishers"): _PUBLISH,
    ("DELETE", "/streams/{name}/publishers/{publisher}"): _PUBLISH,
    ("POST", "/streams/{name}/records"): _PUBLISH,
    ("POST", "/streams/{name}/advance"): _PUBLISH,
    ("POST", "/streams/{name}/subscriptions"): _SUBSCRIBE,
    ("DELETE", "/streams/{name}/subscriptions/{subscription}"): _SUBSCRIBE,
    ("GET", "/streams/{name}/answers"): _SUBSCRIBE,
    ("GET", "/streams/{name}/events"): _SUBSCRIBE,
    ("POST", "/streams:producers"): Need(("subscribe",), BODY),
    ("POST", "/publishers"): Need(("publish",), BODY),
    ("GET", "/publishers"): Need(("publish",), OWN),
    ("POST", "/publishers:close"): Need(("publish",), BODY),
    ("GET", "/connectors"): _read(),
    ("GET", "/connectors:kinds"): _read(),
    ("GET", "/connectors/{name}"): _read(),
    ("GET", "/connectors/{name}/dead-letters"): _deploy(),
    ("PUT", "/connectors/{name}"): _admin("connect"),
    ("DELETE", "/connectors/{name}"): _admin("disconnect"),
    ("POST", "/connectors:work"): _admin(),
    ("DELETE", "/cluster/quarantined"): _admin("discard"),
    ("GET", "/cluster"): Need(),
    ("GET", "/instance-managers"): _read(),
    ("GET", "/topology"): _read(),
    ("GET", "/hosts"): _read(),
    ("POST", "/hosts"): _admin("join"),
    ("POST", "/hosts/{name}/evacuate"): _admin("evacuate"),
    ("GET", "/figures"): _read(),
    ("GET", "/history"): _read(),
    ("GET", "/trace"): _read(),
    ("GET", "/metrics"): _read(),
    ("GET", "/audit"): _admin(),
    ("POST", "/keys"): Need(audited="keys"),
    ("GET", "/keys"): _admin(),
    ("DELETE", "/keys"): _admin("keys"),
    ("GET", "/keys/members"): Need(),
    ("POST", "/keys/members"): _admin("keys"),
    ("GET", "/health"): Need(open=True),
    ("GET", "/openapi.json"): Need(),
    ("GET", "/docs"): Need(),
    ("GET", "/docs-assets"): Need(),
}

OPEN = frozenset(path for (_, path), need in ROUTES.items() if need.open)
"""Paths that are answered without a token, too."""


def needed(method: str, path: str) -> Need:
    """Raises KeyError: that route is not in the table, and cannot be served."""
    try:
        return ROUTES[method, path]
    except KeyError:
        raise KeyError(f"{method} {path} is not in the table of roles, {__name__}.ROUTES: say which role it needs") from None


def check_table(served: Iterable[tuple[str, str]]) -> None:
    """Raises KeyError: a route that is served is not in the table, or one in the table is not served."""
    there = set(served)
    for each in there:
        needed(*each)
    if gone := ROUTES.keys() - there:
        raise KeyError(f"the table of roles, {__name__}.ROUTES, has what is not served: {sorted(gone)}")
