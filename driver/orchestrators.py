"""Several orchestrators behind one client: requests go to the one that led last, and to the next where that does not answer or lead.

The caller tries again (`driver.rest`), which is then a try at another one.
"""

from __future__ import annotations

from collections.abc import Sequence

import httpx

from cep.errors import ClusterError

_NOT_LEADING = 503


def address_list(url: str) -> list[str]:
    """The orchestrators' addresses, as options have them: with commas. Raises ClusterError: one is no address."""
    found = [each.strip().rstrip("/") for each in url.split(",") if each.strip()]
    if not found or not all(map(_is_address, found)):
        wrong = next((each for each in found if not _is_address(each)), url)
        raise ClusterError(f"the orchestrator's address: expected http://HOST:PORT or https://HOST:PORT, got {wrong!r}")
    return found


def _is_address(url: str) -> bool:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    return parsed.scheme in ("http", "https") and bool(parsed.host)


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
