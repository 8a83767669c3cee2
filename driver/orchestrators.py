"""Several orchestrators behind one client: requests go to the one that led last, and to the next where that does not answer or lead.

The caller tries again (`driver.rest`), which is then a try at another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

import httpx

from cep.errors import ClusterError

_NOT_LEADING = 503


def address_list(url: str, scheme: str = "") -> list[str]:
    """The orchestrators' addresses, as options have them: with commas. `scheme`: that of one that names none. Raises ClusterError: one is
    no address."""
    given = (each.strip().rstrip("/") for each in url.split(",") if each.strip())
    found = [each if "://" in each or not scheme else f"{scheme}://{each}" for each in given]
    if not found or not all(map(_is_address, found)):
        wrong = next((each for each in found if not _is_address(each)), url)
        raise ClusterError(f"the orchestrator's address: expected http://HOST:PORT or https://HOST:PORT, got {_without_secret(wrong)!r}")
    return found


def _is_address(url: str) -> bool:
    """Names and passwords are none of ours, and would be shown."""
    try:
        parsed, port = httpx.URL(url), urlsplit(url).port
    except (httpx.InvalidURL, ValueError):
        return False
    rest = parsed.userinfo or parsed.query or parsed.fragment or any(map(str.isspace, url))
    return parsed.scheme in ("http", "https") and bool(parsed.host) and port != 0 and not rest


def _without_secret(url: str) -> str:
    """What may be shown of it: what stands before an @ may be a password."""
    begin, at, end = url.rpartition("@")
    return f"{begin.partition('://')[0]}://…@{end}" if at else url


class Orchestrators(httpx.BaseTransport):
    """Sends each request to one of `urls`, over `transport`."""

    def __init__(self, urls: Sequence[str], transport: httpx.BaseTransport) -> None:
        self._urls, self._transport = [httpx.URL(url) for url in urls], transport
        self._turn = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        turn = self._turn
        asked = self._urls[turn % len(self._urls)]
        request.url = request.url.copy_with(scheme=asked.scheme, host=asked.host, port=asked.port)
        request.headers["Host"] = asked.netloc.decode("ascii")
        try:
            response = self._transport.handle_request(request)
        except httpx.TransportError:
            self._turn = turn + 1
            raise
        if response.status_code == _NOT_LEADING:
            self._turn = turn + 1
        return response

    def close(self) -> None:
        self._transport.close()
