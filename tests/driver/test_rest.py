"""The orchestrator's REST API as the driver calls it: what is sent, what is tried again, and the errors that come of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from cep.errors import ClusterError, Conflict, NotFound, QueryError
from driver.rest import NotLeading, Rest, Unreachable, error_of, path

URL = "http://o:1"
STANDBY = httpx.Response(503, json={"error": "NotLeading", "detail": "stands by"})


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)


@contextmanager
def rest(answer: Callable[[httpx.Request], httpx.Response], patience_s: float = 60.0) -> Iterator[Rest]:
    made = Rest(URL, "secret", patience_s)
    headers = made.client.headers
    made.client.close()
    made.client = httpx.Client(base_url=URL, headers=headers, transport=httpx.MockTransport(answer))
    try:
        yield made
    finally:
        made.close()


def in_turn(*outcomes: httpx.Response | Exception) -> Callable[[httpx.Request], httpx.Response]:
    """Fails where it is asked more often."""
    left = iter(outcomes)

    def answer(_: httpx.Request) -> httpx.Response:
        found = next(left)
        if isinstance(found, Exception):
            raise found
        return found

    return answer


def test_documents_go_out_and_come_in() -> None:
    asked: list[tuple[str, str, str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        asked.append((request.method, request.url.raw_path.decode(), request.headers["Authorization"], body))
        return httpx.Response(204) if request.method == "DELETE" else httpx.Response(200, json={"of": request.method})

    with rest(answer) as made:
        assert made.get("/a") == {"of": "GET"} and made.post("/b", {"x": 1}) == {"of": "POST"} and made.put("/c", [2]) == {"of": "PUT"}
        assert made.delete(path("queries", "a/b ü")) is None and json.loads(made.text("/t")) == {"of": "GET"}
    bearer = "Bearer secret"
    assert asked == [
        ("GET", "/a", bearer, None),
        ("POST", "/b", bearer, {"x": 1}),
        ("PUT", "/c", bearer, [2]),
        ("DELETE", "/queries/a%2Fb%20%C3%BC", bearer, None),
        ("GET", "/t", bearer, None),
    ]


def test_one_that_does_not_lead_or_is_out_of_reach_is_asked_again() -> None:
    refused = httpx.ConnectError("refused")
    with rest(in_turn(STANDBY, refused, httpx.Response(200, json=1), refused, httpx.Response(200, json=2))) as made:
        assert made.post("/a") == 1
        assert made.post("/a") == 2 and made.away_since == 0
    with rest(in_turn(refused), -1) as made, pytest.raises(Unreachable, match="o:1 cannot be reached, since ") as found:
        made.get("/a")
    assert found.value.refused and made.away_since == found.value.since > 0
    with rest(in_turn(STANDBY), -1) as made, pytest.raises(NotLeading, match=r"^stands by$"):
        made.get("/a")


def test_each_time_that_it_is_waited_for_is_told_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    refused, answer = httpx.ConnectError("refused"), httpx.Response(200, json=1)
    with rest(in_turn(refused, refused, answer, refused, answer)) as made:
        monkeypatch.setattr("driver.rest.WORD_S", 1e9)
        assert made.get("/a") == 1 and not caplog.messages
        monkeypatch.setattr("driver.rest.WORD_S", 0.0)
        assert made.get("/a") == 1
        [told] = caplog.messages
        assert told.startswith("the orchestrator at http://o:1 cannot be reached") and told.endswith("it is tried again for up to 60 s")
    caplog.clear()
    with rest(in_turn(refused, refused, answer, refused, answer)) as made:
        assert made.get("/a") == made.get("/a") == 1
    assert len(caplog.messages) == 2


def test_only_what_may_be_obeyed_twice_is_sent_again_when_it_broke_off() -> None:
    broken = httpx.ReadError("reset")
    for asked in (lambda made: made.get("/a"), lambda made: made.delete("/a"), lambda made: made.post("/a", again=True)):
        with rest(in_turn(broken, httpx.Response(200, json=1))) as made:
            assert asked(made) == 1
    with rest(in_turn(broken)) as made, pytest.raises(Unreachable, match="broke a request off, which it may have obeyed") as found:
        made.post("/a")
    assert not found.value.refused


def test_one_that_is_gone_is_not_waited_for() -> None:
    with rest(in_turn(httpx.ConnectError("refused"))) as made:
        made.gone = lambda: "it was stopped"
        with pytest.raises(Unreachable, match=r"^it was stopped$"):
            made.get("/a")
    with pytest.raises(ClusterError, match="is closed"):
        made.get("/a")


def test_problems_are_the_errors_that_they_tell_of() -> None:
    answers = in_turn(
        httpx.Response(409, json={"error": "Conflict", "detail": "taken"}),
        httpx.Response(422, json={"error": "QueryError", "detail": "no such field", "pointer": "/by"}),
        httpx.Response(502, text="<html>"),
    )
    with rest(answers) as made:
        with pytest.raises(Conflict, match=r"^taken$"):
            made.get("/a")
        with pytest.raises(QueryError, match="no such field") as found:
            made.get("/a")
        assert found.value.pointer == "/by"
        with pytest.raises(ClusterError, match=r"^HTTP 502: <html>$"):
            made.get("/a")
    assert type(error_of({"error": "NotFound", "detail": "x"})) is NotFound and type(error_of({"detail": "x"})) is ClusterError


@pytest.mark.parametrize("token", ["a b", "line\n", "tökén"])
def test_what_can_be_no_token_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ClusterError, match="characters that no token has") as found:
        Rest(URL, token)
    assert token not in str(found.value)
