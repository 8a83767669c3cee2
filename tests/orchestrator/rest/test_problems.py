"""Errors as answers: the status, what is said, and where in what was sent."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from cep import errors
from cep.errors import CepError
from orchestrator.rest.problems import DETAIL_CHARS_MAX, MEDIA_TYPE, STATUS, install, peer_problem, problem_of, refusal, status_of
from orchestrator.service import NotLeading

RAISED: dict[str, Exception] = {
    "query": errors.QueryError("no operator 'x'", "/operators/0"),
    "data": errors.DataError("too long", 3, "k"),
    "protocol": errors.ProtocolError("no JSON"),
    "gone": errors.StreamEnded("out", 5),
    "disk": errors.DiskFull("no room"),
    "large": errors.TooLarge("a megabyte"),
    "leader": NotLeading("http://other:1"),
    "http": HTTPException(404, "not here", {"X-Why": "so"}),
    "long": errors.Conflict("x" * (DETAIL_CHARS_MAX + 9)),
    "bug": KeyError("k"),
}


class Body(BaseModel):
    n: int


def app() -> FastAPI:
    made = FastAPI()
    install(made)

    @made.get("/raise/{what}")
    def fail(what: str) -> None:
        raise RAISED[what]

    @made.put("/raise/{what}")
    def take(what: str, body: Body, limit: int = 1) -> int:
        return body.n

    return made


def asked(method: str, path: str, **given: Any) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app(), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.request(method, path, **given)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("what", "status", "said"),
    [
        ("query", 422, {"detail": "no operator 'x'", "error": "QueryError", "pointer": "/operators/0"}),
        ("data", 422, {"detail": "too long", "error": "DataError"}),
        ("protocol", 400, {"detail": "no JSON", "error": "ProtocolError", "title": "Bad Request"}),
        ("gone", 410, {"error": "StreamEnded"}),
        ("disk", 507, {"error": "DiskFull"}),
        ("large", 413, {"error": "TooLarge"}),
        ("leader", 503, {"error": "NotLeading", "leader": "http://other:1"}),
        ("http", 404, {"detail": "GET /raise/http: not here", "error": "HTTPException"}),
        ("bug", 500, {"detail": "KeyError: 'k'", "error": "InternalError"}),
    ],
)
def test_an_error_is_a_problem(what: str, status: int, said: dict[str, str]) -> None:
    answer = asked("GET", f"/raise/{what}")
    found = answer.json()
    assert answer.status_code == found["status"] == status and answer.headers["Content-Type"] == MEDIA_TYPE
    assert found.items() >= said.items() and found["type"] == "about:blank" and None not in found.values()
    assert (answer.headers.get("Retry-After") == "1") == (status == 503)
    assert answer.headers.get("X-Why") == ("so" if what == "http" else None)


def test_a_long_document_is_shown_by_its_beginning() -> None:
    assert asked("GET", "/raise/long").json()["detail"] == "x" * DETAIL_CHARS_MAX + "…"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"json": {"n": "many"}}, {"pointer": "/n", "detail": "Input should be a valid integer, unable to parse string as an integer"}),
        ({"json": {"n": 1}, "params": {"limit": "x"}}, {"pointer": None}),
        ({"json": {}}, {"pointer": "/n", "detail": "Field required"}),
    ],
)
def test_what_is_not_of_the_declared_shape_is_pointed_at(given: dict[str, Any], said: dict[str, str | None]) -> None:
    answer = asked("PUT", "/raise/x", **given)
    found = answer.json()
    assert answer.status_code == 422 and found["error"] == "QueryError"
    assert {"pointer": None, **found}.items() >= said.items()
    assert "params" not in given or found["detail"].startswith("query parameter 'limit': ")


def test_a_path_says_all_that_it_may_be_asked_with() -> None:
    answer = asked("DELETE", "/raise/x")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, PUT")
    assert asked("GET", "/nowhere").json()["detail"] == "GET /nowhere: Not Found"


def test_every_error_that_a_user_can_meet_has_a_status() -> None:
    """But for those that only a query at work meets, whose failure is told as `QueryFailed`."""
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, CepError)}
    without = {kind.__name__ for kind in kinds if not any(issubclass(kind, known) for known, _ in STATUS)}
    assert without == {"CepError", "StateLimitExceeded"}
    assert status_of(errors.StateLimitExceeded("much")) == 500 and status_of(errors.ReplayMismatch("another")) == 503


def test_what_another_process_met_and_what_came_to_no_route() -> None:
    def said(answer: Any) -> tuple[int, str]:
        return answer.status_code, json.loads(answer.body)["error"]

    assert said(peer_problem("DataError", "no")) == (422, "DataError")
    assert said(peer_problem("Slow", "later")) == (429, "Slow") and peer_problem("Slow", "later").headers["Retry-After"] == "1"
    assert said(peer_problem("Unheard", "?")) == (503, "Unheard")
    assert said(refusal(413, "long")) == (413, "RequestEntityTooLarge")
    assert problem_of(errors.Forbidden("deploy")).status == 403
