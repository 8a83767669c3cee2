"""The audit log: what is in it, that it has an end, and that no request waits or fails for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request, Response

from cep.errors import Forbidden, QueryError
from cep.service.access import Access, Role
from cep.service.token_file import add_token
from cep.world.clock import SystemClock
from orchestrator.rest import audit
from orchestrator.rest.audit import AuditLog, WrongTokens, about, last_lines
from orchestrator.rest.bodies import _audited
from orchestrator.rest.guard import SCOPE
from orchestrator.rest.models import QUERY_EXAMPLE
from orchestrator.rest.roles import ROUTES
from tests.orchestrator.rest.test_app import Server
from tests.support.control_plane import Keeper, cluster
from tests.support.waiting import until

ACCESS = Access("me", (Role("deploy"),))


def request(name: str = "q", query: str = "drain=true") -> Request:
    scope = {"type": "http", "method": "POST", "path": "/x", "query_string": query.encode(), "headers": [], "client": ("10.0.0.9", 1)}
    return Request(scope | {"path_params": {"name": name}})


def log(home: Path, address: str = "https://host:8765") -> AuditLog:
    return AuditLog(str(home), address, SystemClock())


def test_a_line_says_who_what_from_where_when_and_what_came_of_it(tmp_path: Path) -> None:
    written = log(tmp_path)
    written.note(ACCESS, request(query="drain=true&token=s3cret&Access_Token=s3cret"), "stop", 200, None)
    written.note(ACCESS, request("other"), "delete", 403, Forbidden("no"))
    written.close()
    stop, delete = last_lines(str(tmp_path), 10)
    assert stop.pop("at").endswith("+00:00")
    assert stop == {
        "token": "me", "from": "10.0.0.9", "action": "stop", "about": "q", "asked": {"drain": "true"},
        "status": 200, "error": None, "detail": None,
    }  # fmt: skip
    assert (delete["about"], delete["status"], delete["error"], delete["detail"]) == ("other", 403, "Forbidden", "no")
    [file] = (tmp_path / "audit").iterdir()
    assert file.name == "host-8765.jsonl" and file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700


def test_of_many_things_each_has_a_line(tmp_path: Path) -> None:
    written, asked = log(tmp_path), request()
    about(asked, "a")
    about(asked, "b", QueryError("wrong"))
    written.note(ACCESS, asked, "deploy", 200, None)
    written.close()
    assert [(line["about"], line["error"]) for line in last_lines(str(tmp_path), 10)] == [("a", None), ("b", "QueryError")]


def test_what_a_client_says_makes_no_line_long(tmp_path: Path) -> None:
    written = log(tmp_path)
    written.note(ACCESS, request("x" * 10_000, "a=" + "y" * 10_000), "stop", 422, QueryError("z" * 10_000))
    written.note(ACCESS, request('q"\n{"at": "9999'), "stop", 200, None)
    written.note_wrong_token("10.0.0.9", "/" + "x" * 10_000)
    written.close()
    long, odd, wrong = last_lines(str(tmp_path), 10)
    assert len(json.dumps(long)) < 2000 and odd["about"] == 'q"\n{"at": "9999' and len(json.dumps(wrong)) < 1000


def test_wrong_tokens_of_an_address_have_a_line_a_minute_and_of_all_one_a_second() -> None:
    wrong = WrongTokens()
    assert [wrong.take("a", now) for now in (0.0, 1.0, 59.9, 60.0)] == [0, None, None, 2]
    assert [wrong.take(address, 61.0) for address in "bcde"] == [0, 0, None, None]  # two at a time
    assert wrong.take("f", 62.0) == 2


def test_a_wrong_token_is_noted_but_for_what_it_is(tmp_path: Path) -> None:
    written = log(tmp_path)
    for _ in range(3):
        written.note_wrong_token("10.0.0.9", "/queries")
    written.close()
    [line] = last_lines(str(tmp_path), 10)
    assert {key: line[key] for key in ("token", "from", "action", "about", "status", "error")} == {
        "token": "", "from": "10.0.0.9", "action": "wrong token", "about": "/queries", "status": 401, "error": "Unauthorized",
    }  # fmt: skip


def test_it_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "FILE_BYTES_MAX", 2000)
    written = log(tmp_path)
    for i in range(200):
        written.note(ACCESS, request(str(i)), "stop", 200, None)
    written.close()
    files = list((tmp_path / "audit").iterdir())
    assert len(files) == audit.FILES_MAX and all(file.stat().st_size <= 2000 for file in files)
    found = [int(line["about"]) for line in last_lines(str(tmp_path), 1000)]
    assert found == list(range(200 - len(found), 200)) and len(found) > 20
    assert [line["about"] for line in last_lines(str(tmp_path), 3)] == ["197", "198", "199"]


def test_where_it_cannot_be_written_it_is_lost_and_counted(tmp_path: Path) -> None:
    (tmp_path / "audit").write_text("in the way")
    written = log(tmp_path)
    for _ in range(3):
        written.note(ACCESS, request(), "stop", 200, None)
    until(lambda: written._file.lost == 3)
    (tmp_path / "audit").unlink()
    written.note(ACCESS, request("after"), "stop", 200, None)
    written.note(ACCESS, request("later"), "stop", 200, None)
    written.close()
    after, later = last_lines(str(tmp_path), 10)
    assert (after["about"], after["lost"], "lost" in later) == ("after", 3, False)


def test_no_request_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "LINES_WAITING_MAX", 4)
    written = log(tmp_path)
    written._file.acquire()  # its thread is held up, by a disk say
    for _ in range(100):
        written.note(ACCESS, request(), "stop", 200, None)
    written._file.release()
    until(lambda: len(last_lines(str(tmp_path), 100)) >= 4)
    written.note(ACCESS, request("last"), "stop", 200, None)
    written.close()
    found = last_lines(str(tmp_path), 200)
    assert len(found) + sum(line.get("lost", 0) for line in found) == 101


def test_two_orchestrators_with_one_home(tmp_path: Path) -> None:
    one, other = log(tmp_path, "http://a:1"), log(tmp_path, "http://b:1,http://c:1")
    one.note(ACCESS, request("1"), "stop", 200, None)
    one.close()
    other.note(ACCESS, request("2"), "stop", 200, None)
    other.close()
    (tmp_path / "audit" / "a-1.jsonl").open("a").write('5\n{"about": "no time"}\n{"at": 9}\n{"half a line')
    assert [line["about"] for line in last_lines(str(tmp_path), 10)] == ["1", "2"]
    assert last_lines(str(tmp_path / "nowhere"), 10) == []


def test_lines_of_one_moment_are_in_the_order_of_their_files(tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    for name, subject in (("a-1.jsonl", "newest"), ("a-1.jsonl.1", "newer"), ("a-1.jsonl.2", "oldest")):
        (tmp_path / "audit" / name).write_text(json.dumps({"at": "2026-01-01T00:00:00.000000+00:00", "about": subject}) + "\n")
    assert [line["about"] for line in last_lines(str(tmp_path), 10)] == ["oldest", "newer", "newest"]


def test_of_a_long_file_only_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_TAIL_BYTES", 1000)
    written = log(tmp_path)
    for i in range(50):
        written.note(ACCESS, request(str(i)), "stop", 200, None)
    written.close()
    found = [int(line["about"]) for line in last_lines(str(tmp_path), 50)]
    assert found == list(range(50 - len(found), 50)) and 3 <= len(found) < 10


def test_what_its_client_has_left_is_noted_as_such(tmp_path: Path) -> None:
    """Nothing is known of what came of it."""

    async def gone(request: Request) -> Response:
        raise asyncio.CancelledError

    written, app = log(tmp_path), FastAPI()
    app.state.api = SimpleNamespace(audit=written)
    asked = Request({**request().scope, "app": app, SCOPE: ACCESS})
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(_audited(asked, ROUTES["POST", "/queries/{name}/stop"], gone, False))
    written.close()
    assert [(line["about"], line["action"], line["status"]) for line in last_lines(str(tmp_path), 10)] == [("q", "stop", 499)]


def test_a_standby_notes_nothing_for_the_leader_is_asked_next(zookeeper: Keeper, tmp_path: Path) -> None:
    with cluster(zookeeper.fresh(), tmp_path, 0, rest_port=0) as running:
        server = Server(running.add_service(), running.config)
        with server.client() as client:
            assert client.post("/queries/q/stop").status_code == 503
        server.close()
    assert last_lines(str(tmp_path), 10) == []


@pytest.fixture
def door(zookeeper: Keeper, tmp_path: Path) -> Iterator[tuple[httpx.Client, dict[str, dict[str, str]]]]:
    tokens = tmp_path / "tokens"
    made = {role: add_token(tokens, f"the-{role}", [Role(role)], "").text for role in ("admin", "deploy", "read")}
    with cluster(zookeeper.fresh(), tmp_path, 1, rest_port=0, tokens=str(tokens)) as running:
        server = Server(running.services[0], running.config)
        with server.client() as client:
            yield client, {role: {"Authorization": f"Bearer {token}"} for role, token in made.items()}
        server.close()
        text = "".join(file.read_text() for file in (tmp_path / "audit").iterdir())
        assert not any(token in text for token in made.values())


def test_what_changes_something_is_noted_whatever_comes_of_it(door: tuple[httpx.Client, dict[str, dict[str, str]]]) -> None:
    client, headers = door
    deploy = headers["deploy"]
    stream = {"schema": [{"name": "n", "type": "int64"}]}
    asked: list[tuple[str, str, dict[str, str], Any]] = [
        ("POST", "/queries?wait=true", deploy, QUERY_EXAMPLE),
        ("POST", "/queries", deploy, QUERY_EXAMPLE | {"operators": 5}),
        ("POST", "/queries", headers["read"], QUERY_EXAMPLE),
        ("POST", "/queries:bulk", deploy, [QUERY_EXAMPLE, {"name": "wrong"}]),
        ("POST", "/queries/per-ip/start", deploy, None),
        ("POST", "/queries/per-ip/move", deploy, {"subquery": "SQ1", "instance": 0, "im": "nowhere"}),
        ("POST", "/queries/per-ip/rebalance", deploy, {"table": [0]}),
        ("POST", "/queries/per-ip/scale", deploy, {"subquery": "SQ1", "instances": 2}),
        ("POST", "/queries/per-ip/upgrade", deploy, QUERY_EXAMPLE),
        ("POST", "/queries/per-ip/stop?drain=true", deploy, None),
        ("DELETE", "/queries/none", deploy, None),
        ("PUT", "/streams/s", deploy, stream),
        ("DELETE", "/streams/s", deploy, None),
        ("DELETE", "/cluster/quarantined?node=/cep/x", headers["admin"], None),
        ("POST", "/keys", headers["read"], {"public": "x"}),
        ("GET", "/queries", headers["read"], None),
        ("POST", "/explain", deploy, QUERY_EXAMPLE),
        ("POST", "/queries", {"Authorization": "Bearer wrong"}, QUERY_EXAMPLE),
    ]
    statuses = [client.request(method, path, headers=own, json=body).status_code for method, path, own, body in asked]
    lines = until(lambda: found if len(found := client.get("/audit", headers=headers["admin"]).json()) >= 17 else None)
    assert [(line["token"], line["action"], line["about"], line["status"]) for line in lines] == [
        ("the-deploy", "deploy", "per-ip", 201),
        ("the-deploy", "deploy", "", 422),
        ("the-read", "deploy", "", 403),
        ("the-deploy", "deploy", "per-ip", 200),
        ("the-deploy", "deploy", "wrong", 200),
        ("the-deploy", "start", "per-ip", statuses[4]),
        ("the-deploy", "move", "per-ip", statuses[5]),
        ("the-deploy", "rebalance", "per-ip", statuses[6]),
        ("the-deploy", "scale", "per-ip", statuses[7]),
        ("the-deploy", "upgrade", "per-ip", 422),
        ("the-deploy", "stop", "per-ip", 200),
        ("the-deploy", "delete", "none", 404),
        ("the-deploy", "declare", "s", 200),
        ("the-deploy", "undeclare", "s", 204),
        ("the-admin", "discard", "/cep/x", 404),
        ("the-read", "keys", "", 422),
        ("", "wrong token", "/queries", 401),
    ]
    assert [line["error"] for line in lines[2:5]] == ["Forbidden", "Conflict", "QueryError"]
    assert client.get("/audit?last=2", headers=headers["admin"]).json() == lines[-2:]
    assert client.get("/audit", headers=deploy).status_code == 403
