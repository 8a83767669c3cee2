"""What a route needs, of a token, a path and a body, as values."""

from __future__ import annotations

from typing import Any

import pytest

from cep.errors import Forbidden
from cep.service.access import Access, Role
from orchestrator.rest.roles import BODY, OWN, PATH, ROUTES, Need


@pytest.mark.parametrize(
    ("need", "role", "path", "body", "allowed"),
    [
        (Need(("deploy",)), "deploy", {}, None, True),
        (Need(("deploy",)), "read", {}, None, False),
        (Need(("read", "publish"), PATH), "publish:a", {"name": "a"}, None, True),
        (Need(("read", "publish"), PATH), "publish:b", {"name": "a"}, None, False),
        (Need(("read", "publish"), PATH), "read", {"name": "a"}, None, True),
        (Need(("publish",), BODY), "publish:a", {}, [{"stream": "a"}], True),
        (Need(("publish",), BODY), "publish:a", {}, [{"stream": "a"}, {"stream": "b"}], False),
        (Need(("publish",), BODY), "publish:a", {}, ["a", "b"], False),
        (Need(("publish",), BODY), "publish:*", {}, ["a", "b"], True),
        (Need(("publish",), BODY), "subscribe:a", {}, [], False),
        (Need(("publish",), OWN), "publish:a", {}, None, True),
        (Need(("publish",), OWN), "deploy", {}, None, False),
        (Need(), "publish:a", {}, None, True),
    ],
)
def test_what_is_needed(need: Need, role: str, path: dict[str, str], body: Any, allowed: bool) -> None:
    access = Access("t", (Role.parse(role),))
    if allowed:
        need.check(access, path)
        need.check_body(access, body)
    else:
        with pytest.raises(Forbidden):
            need.check(access, path)
            need.check_body(access, body)


def test_what_changes_something_for_others_is_audited() -> None:
    """Rows, publishers and subscriptions are not: they come too often, and are their clients' own. So does what runs connectors."""
    unnoted = {route for route, need in ROUTES.items() if route[0] != "GET" and not need.audited and need.kinds not in CLIENTS}
    assert unnoted == {("POST", "/queries:wait"), ("POST", "/explain"), ("POST", "/connectors:work")}


CLIENTS = (("publish",), ("subscribe",))
