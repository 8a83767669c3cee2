"""Every route, asked with a token of every role, over HTTP; and what no table can say: streams that are named in the body.

Tests `roles.py`, `bodies.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from fastapi.responses import PlainTextResponse

from cep.config import ClusterConfig
from cep.secret import Secret
from cep.service.access import Role
from cep.service.token_file import Tokens, add_token, remove_token
from orchestrator.rest.app import make_rest_app, served
from orchestrator.rest.bodies import DocumentRoute
from orchestrator.rest.guard import Guard
from orchestrator.rest.models import QUERY_EXAMPLE
from orchestrator.rest.rate_limit import RateLimit
from orchestrator.rest.roles import BODY, PATH, ROUTES, check_table
from orchestrator.rest.roles_page import ROLES, STREAM, YES, table
from tests.orchestrator.rest.test_app import Server
from tests.support.control_plane import Keeper, cluster
from tests.support.paths import ROOT
from tests.support.waiting import HANG_S

OPENING = [{"stream": STREAM, "name": "p", "endpoint": "ipc:///p"}]
#: Bodies and parameters of those routes that ask for a role by them.
BODIES: dict[str, Any] = {"/publishers": OPENING, "/publishers:close": OPENING, "/streams:producers": [STREAM]}
PARAMETERS = {("GET", "/publishers"): {"endpoint": "ipc:///p"}, ("POST", "/queries:wait"): {"timeout": 0.01}}
REFUSED = (401, 403)


@pytest.fixture(scope="module")
def door(zookeeper: Keeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, dict[str, str]]]:
    """A cluster with a stand-in for an instance manager, and a token for each role."""
    folder = tmp_path_factory.mktemp("door")
    tokens = folder / "tokens"
    names = {role: role.replace(":", ".") for role in (*ROLES, "publish:other", "subscribe:other")}
    made = {role: add_token(tokens, name, [Role.parse(role)], "").text for role, name in names.items()}
    with cluster(zookeeper.fresh(), folder, 1, rest_port=0, tokens=str(tokens)) as running:
        server = Server(running.services[0], running.config)
        yield server, made
        server.close()


def ask(client: httpx.Client, route: tuple[str, str], token: str | None, **more: Any) -> httpx.Response:
    method, path = route
    address = path.format(name=STREAM, publisher="p", subscription="s")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    body = BODIES.get(path) if method == "POST" else None
    return client.request(method, address, json=body, params=PARAMETERS.get(route), headers=headers, **more)


def test_every_route_for_every_role(door: tuple[Server, dict[str, str]]) -> None:
    """The page of roles, made by asking. Of the routes that ask the metric server, which is not there, two cells are enough: an answer
    takes two seconds."""
    server, tokens = door
    page = {(method.strip("`"), path.strip("`")): marks for method, path, marks in map(_cells, table().splitlines()[2:])}
    with server.client() as client:
        for route in ROUTES:
            for role, mark in zip(ROLES, page[route], strict=True):
                if route[1] not in ("/figures", "/history", "/trace", "/metrics") or role in ("read", f"publish:{STREAM}"):
                    answer = ask(client, route, tokens[role])
                    assert (answer.status_code not in REFUSED) == (mark == YES), (route, role, answer.text)
                    assert answer.status_code != 403 or "needs the role" in answer.json()["detail"]


def _cells(line: str) -> tuple[str, str, list[str]]:
    """Method, path and marks of a line of the page."""
    _, route, _, *marks, _ = (cell.strip() for cell in line.split("|"))
    method, _, path = route.partition(" ")
    return method, path, marks


def test_without_a_token_nothing_says_what_there_is(door: tuple[Server, dict[str, str]]) -> None:
    server, _ = door
    with server.client() as client:
        answers = {}
        for route in (*ROUTES, ("GET", "/nowhere"), ("GET", "/queries/none"), ("PATCH", "/queries")):
            for token in (None, "wrong"):
                answer = ask(client, route, token)
                answers[route, token] = answer.status_code, answer.text
                assert answer.status_code == 401 or (route, token) == (("GET", "/health"), None), route
        said = {text for (route, _), (status, text) in answers.items() if status == 401}
        assert len(said) == 1, "whatever is asked for, the answer is the same"
        assert client.get("/health").json() == {"role": "leader"}


def test_another_streams_roles_are_none_of_this_one(door: tuple[Server, dict[str, str]]) -> None:
    server, tokens = door
    with server.client() as client:
        for kind in ("publish", "subscribe"):
            routes = [route for route, need in ROUTES.items() if need.kinds == (kind,) and need.where in (PATH, BODY)]
            assert len(routes) >= 4
            for route in routes:
                answer = ask(client, route, tokens[f"{kind}:other"])
                assert answer.status_code == 403 and f"needs the role {kind}:{STREAM}" in answer.json()["detail"], route
        mixed = [{"stream": "other", "name": "p", "endpoint": "ipc:///p"}, *OPENING]
        headers = {"Authorization": f"Bearer {tokens['publish:other']}"}
        assert client.post("/publishers", json=mixed, headers=headers).status_code == 403


def test_news_are_of_the_streams_that_a_token_is_for(door: tuple[Server, dict[str, str]]) -> None:
    server, tokens = door
    admin = {"Authorization": f"Bearer {tokens['admin']}"}
    with server.client() as client:
        for name in ("other", STREAM):
            source = QUERY_EXAMPLE["streams"][0] | {"name": name}
            operator = QUERY_EXAMPLE["operators"][0] | {"input": name}
            outputs = [{"stream": f"out-{name}", "input": "window"}]
            document = QUERY_EXAMPLE | {"name": name, "streams": [source], "operators": [operator], "outputs": outputs}
            client.put(f"/streams/{name}", json=source, headers=admin).raise_for_status()
            client.post("/publishers", json=[{"stream": name, "name": "p", "endpoint": "ipc:///q"}], headers=admin).raise_for_status()
            client.post("/queries?wait=true", json=document, headers=admin).raise_for_status()

        def streams(role: str) -> set[str]:
            headers = {"Authorization": f"Bearer {tokens[role]}"}
            return set(client.get("/publishers", params={"endpoint": "ipc:///q"}, headers=headers).json()["streams"])

        assert streams("admin") == {"other", STREAM} and streams("publish:other") == {"other"}
        for name in ("other", STREAM):
            client.delete(f"/queries/{name}?wait=true", headers=admin).raise_for_status()
            client.delete(f"/streams/{name}/publishers/p", headers=admin).raise_for_status()
            client.delete(f"/streams/{name}", headers=admin).raise_for_status()


def test_a_name_is_what_the_route_takes_it_for(door: tuple[Server, dict[str, str]]) -> None:
    """Encoded twice, with another stream's address in it, in another case: none of it reaches another stream."""
    server, tokens = door
    headers = {"Authorization": f"Bearer {tokens[f'publish:{STREAM}']}"}
    with server.client() as client:
        for name in (quote(STREAM).replace("v", "%2576"), f"other%2F{STREAM}", "VISITS", f"{STREAM}%20", f"{STREAM}%00", "..%2Fvisits"):
            assert client.get(f"/streams/{name}/readers", headers=headers).status_code in (403, 404), name
        assert client.get(f"/streams/%76isits/readers?name=other&name={STREAM}", headers=headers).status_code == 404  # not declared: let in


def test_what_is_not_open_is_not_heard(door: tuple[Server, dict[str, str]]) -> None:
    """Whatever names a token gives: each that is kept would be closed, one by one, before the next query is deployed."""
    server, tokens = door
    source = QUERY_EXAMPLE["streams"][0] | {"name": STREAM}
    admin, publish = ({"Authorization": f"Bearer {tokens[role]}"} for role in ("admin", f"publish:{STREAM}"))
    with server.client() as client:
        client.put(f"/streams/{STREAM}", json=source, headers=admin).raise_for_status()
        client.post("/publishers", json=OPENING, headers=publish).raise_for_status()
        for name in ("p", *map(str, range(20))):
            client.get(f"/streams/{STREAM}/readers", params={"publisher": name}, headers=publish).raise_for_status()
        assert set(server.api.heard) == {(STREAM, "p")}
        client.delete(f"/streams/{STREAM}/publishers/p", headers=publish).raise_for_status()
        assert not server.api.heard
        client.delete(f"/streams/{STREAM}", headers=admin).raise_for_status()


def test_a_token_that_is_removed_counts_no_more(door: tuple[Server, dict[str, str]]) -> None:
    server, _ = door
    file = Path(str(server.api.config.tokens))
    made = add_token(file, "for-now", [Role("read")], "")
    with server.client(headers={"Authorization": f"bearer {made.text}"}) as client:
        assert client.get("/queries").status_code == 200
        remove_token(file, "for-now")
        assert client.get("/queries").status_code == 401


def test_the_page_is_made_of_the_table() -> None:
    """`python -m orchestrator.rest.roles_page` prints it."""
    assert table() in (ROOT / "docs/roles.md").read_text()


def test_what_is_not_in_the_table_cannot_be_served(door: tuple[Server, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    server, _ = door
    app = make_rest_app(server.api)
    assert set(served(app)) == ROUTES.keys()
    app.add_api_route("/more", lambda: None)
    with pytest.raises(KeyError, match="GET /more is not in the table of roles"):
        check_table(served(app))
    router, other = APIRouter(route_class=DocumentRoute), APIRouter()
    with pytest.raises(KeyError, match="POST /more is not in the table of roles"):
        router.add_api_route("/more", lambda: None, methods=["POST"])
        FastAPI().include_router(router)
    other.add_api_route("/queries", lambda: None)
    app = make_rest_app(server.api)
    app.include_router(other)
    with pytest.raises(KeyError):
        check_table([*served(app), ("GET", "/elsewhere")])
    monkeypatch.delitem(ROUTES, ("GET", "/docs"))
    with pytest.raises(KeyError, match="GET /docs"):
        make_rest_app(server.api)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_each_token_has_requests_a_second_of_its_own(anyio_backend: str, tmp_path: Path) -> None:
    """And a wrong one has none: it is told so, not that it asks too often."""
    config = ClusterConfig("/h", "z:1", "127.0.0.1", 1, "ipc:///in", "ipc:///out")
    other = add_token(tmp_path / "tokens", "other", [Role("read")], "2026-11-24T12:00:00Z").text
    guard = Guard(RateLimit(PlainTextResponse("in"), per_s=1, now=lambda: 0.0), config, Tokens(Secret("s"), str(tmp_path / "tokens")))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url="http://localhost", timeout=HANG_S) as client:

        async def asked(token: str) -> int:
            return (await client.get("/queries", headers={"Authorization": f"Bearer {token}"})).status_code

        answers = [await asked("s") for _ in range(5)]
        assert answers[0] == 200 and answers[-1] == 429
        assert await asked(other) == 200
        assert {await asked("t") for _ in range(5)} == {401}
