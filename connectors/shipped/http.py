"""HTTP: answers are posted to an address (a webhook), and an address is asked now and then (poll).

Out, a request has up to `rows_max` rows, as a file of the document's format has them, and the header `Idempotency-Key`, by
which the other side knows what has come twice. In, whatever the answer holds is taken; nothing says what was taken before, so rows come
again where the other side gives them again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from typing import Annotated

import httpx
import pyarrow as pa
from pydantic import Field

from connectors.contract import (
    AnswerWriter,
    Connector,
    ConnectorError,
    ConnectorOptions,
    Place,
    Polled,
    RecordReader,
    ValueFormat,
)
from connectors.formats.files import OpenFile, opened
from connectors.shipped.plain import LiveSource, TokenlessSink

ANSWER_BYTES_MAX, PIECE_BYTES = 16 << 20, 1 << 16
Url = Annotated[str, Field(pattern="^https?://", description="The address.")]
Headers = Annotated[dict[str, str], Field(description="Headers, such as `Authorization: Bearer ${env:SHOP_TOKEN}`.")]
Timeout = Annotated[float, Field(gt=0, le=60, description="For an answer, in seconds.")]


class HttpIn(ConnectorOptions):
    """`from`: {"connector": "http", "url": "https://shop/prices", "every_s": 60}"""

    url: Url
    headers: Headers = Field(default_factory=dict)
    every_s: Annotated[float, Field(gt=0, le=86_400, description="How often it is asked.")] = 10.0
    timeout_s: Timeout = 10.0


class HttpOut(ConnectorOptions):
    """`to`: {"connector": "http", "url": "https://shop/alarms"}"""

    url: Url
    headers: Headers = Field(default_factory=dict)
    rows_max: Annotated[int, Field(ge=1, le=10_000, description="Rows in one request.")] = 500
    timeout_s: Timeout = 10.0


@contextmanager
def _failing(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        raise ConnectorError(f"{url}: {type(error).__name__}: {error}") from None


def _content(answer: httpx.Response, url: str) -> bytes:
    """What is answered, which is not read any further than it may be long. Raises ConnectorError: it is longer, or a failure."""
    content = bytearray()
    for piece in answer.iter_bytes(PIECE_BYTES):
        content += piece
        if len(content) > ANSWER_BYTES_MAX:
            raise ConnectorError(f"{url}: expected an answer of at most {ANSWER_BYTES_MAX:,} bytes, got a longer one")
    if not answer.is_success:
        raise ConnectorError(f"{url} answered {answer.status_code}: {content[:200].decode(errors='replace')}")
    return bytes(content)


class HttpReader(RecordReader):
    """The answer is read as a file. The same answer again, by its `ETag`, is not taken again."""

    def __init__(self, options: HttpIn, format: ValueFormat) -> None:
        self.options, self.format = options, format
        self.client = httpx.Client(headers=options.headers, timeout=options.timeout_s, follow_redirects=True)
        self.waiting, self.tag = threading.Event(), ""
        self.left_s = 0.0  # until it is asked again
        self.answer: OpenFile | None = None

    def poll(self, rows_max: int, timeout_s: float) -> Polled:
        found = None if self.answer is None else self.answer.take(rows_max)
        if found is None:
            if self.left_s > timeout_s:
                self.waiting.wait(timeout_s)
                self.left_s -= timeout_s
                return Polled(None)
            self.waiting.wait(self.left_s)
            self.left_s = self.options.every_s
            self.answer = self._ask()
            found = None if self.answer is None else self.answer.take(rows_max)
        return Polled(None) if found is None else replace(found, place=None)

    def committed(self, place: Place) -> None:
        """The other side is not told."""

    def close(self) -> None:
        self.client.close()

    def _ask(self) -> OpenFile | None:
        """None: nothing is new."""
        url, known = self.options.url, {"If-None-Match": self.tag} if self.tag else {}
        with _failing(url), self.client.stream("GET", url, headers=known) as answer:
            if answer.status_code == httpx.codes.NOT_MODIFIED:
                return None
            content = _content(answer, url)
        self.tag = answer.headers.get("etag", "")
        return opened(self.format, BytesIO(content), url)


class HttpWriter(AnswerWriter):
    """Each request is one batch, or a part of one, so that it is the same if it is sent again, and its key too."""

    def __init__(self, options: HttpOut, format: ValueFormat, name: str, epoch: int) -> None:
        self.options, self.format = options, format
        self.about = {"Content-Type": format.media, "X-Connector": name}
        self.about["X-Connector-Epoch"] = str(epoch)
        # Without TLS no certificates are read, which takes some 50 ms; and without TLS it stays, for no redirection is followed.
        is_plain = options.url.startswith("http:")
        self.client = httpx.Client(headers=options.headers, timeout=options.timeout_s, verify=not is_plain)
        self.waiting: list[tuple[str, bytes]] = []

    def write(self, rows: pa.RecordBatch, origin: str) -> None:
        for first in range(0, rows.num_rows, self.options.rows_max):
            part = rows.slice(first, self.options.rows_max)
            self.waiting.append((f"{origin}-{first}", self.format.file_of(part)))

    def commit(self, token: str) -> None:
        for key, body in self.waiting:
            self._post(key, body)
        self.waiting.clear()

    def abort(self) -> None:
        self.waiting.clear()

    def close(self) -> None:
        self.client.close()

    def _post(self, key: str, body: bytes) -> None:
        """Raises ConnectorError."""
        url, headers = self.options.url, self.about | {"Idempotency-Key": key}
        with _failing(url), self.client.stream("POST", url, content=body, headers=headers) as answer:
            _content(answer, url)


HTTP = Connector(
    HttpIn,
    lambda options, format: LiveSource(options.url, lambda: HttpReader(options, format)),
    HttpOut,
    lambda options, format: TokenlessSink(lambda name, epoch: HttpWriter(options, format, name, epoch)),
    many=True,
)
