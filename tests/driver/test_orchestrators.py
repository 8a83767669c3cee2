"""Several orchestrators behind one client, and their addresses.

Tests `orchestrators.py`, `rest.py`.
"""

from __future__ import annotations

import re

import httpx
import pytest

from cep.errors import ClusterError
from driver.orchestrators import Orchestrators, address_list
from driver.rest import Rest


def test_requests_go_to_the_one_that_leads() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.url.host} {request.headers['Host']}")
        if request.url.host == "gone":
            raise httpx.ConnectError("refused")
        return httpx.Response(503 if request.url.host == "standby" else 200)

    urls = address_list("http://gone:1, http://standby:2/,http://leader:3")
    with httpx.Client(base_url=urls[0], transport=Orchestrators(urls, httpx.MockTransport(answer))) as client:
        with pytest.raises(httpx.ConnectError):
            client.get("/a")
        assert [client.get("/a").status_code for _ in range(3)] == [503, 200, 200]
    assert asked == ["gone gone:1", "standby standby:2", "leader leader:3", "leader leader:3"]


@pytest.mark.parametrize(
    "url",
    [
        *("127.0.0.1:8765", "localhost:8765", "orchestrator", "ftp://a:1", "http:", "", "http://a:1,b:2", "http://a:x"),
        *("http://a:99999", "http://a:-1", "http://a:0", "http://a b:1", "http://a:1?x=1", "http://a:1#x", "http://::1"),
    ],
)
def test_what_is_no_address_is_refused_at_once(url: str) -> None:
    wrong = "b:2" if "," in url else url
    with pytest.raises(ClusterError, match=re.escape(f"expected http://HOST:PORT or https://HOST:PORT, got {wrong!r}")):
        Rest(url)


def test_an_address_without_a_scheme_has_the_one_that_is_spoken() -> None:
    assert address_list("10.0.0.1:8765", "https") == ["https://10.0.0.1:8765"]
    assert address_list(" a:1, b:2/,,http://c:3 ,[::1]:4", "https") == ["https://a:1", "https://b:2", "http://c:3", "https://[::1]:4"]
    for wrong in ("a:99999", "a:1,ftp://b:2", "::1", ""):
        with pytest.raises(ClusterError, match="the orchestrator's address"):
            address_list(wrong, "https")


def test_a_password_in_an_address_is_not_shown() -> None:
    with pytest.raises(ClusterError, match=r"got 'https://…@a:1'") as refused:
        Rest("https://me:s3cret@a:1")
    assert "s3cret" not in str(refused.value)
