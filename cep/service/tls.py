"""TLS of an HTTP server of ours: a certificate that may be renewed while it serves, and what a client is told where one does not count."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from pathlib import Path

from cep.errors import ClusterError

_LOG = logging.getLogger(__name__)
_Version = tuple[tuple[int, int], ...]

_EXPIRED, _NOT_YET, _OTHER_NAME, _OTHER_ADDRESS = 10, 9, 62, 64
_UNKNOWN = (18, 19, 20, 21)  # X509_V_ERR_…: self-signed, or of an authority that is not ours


class Certificate:
    """A server's certificate and its key, files in PEM, read again when they have changed.

    Every connection asks whether they have, so that a renewed one counts from the next connection on; open ones go on. What cannot be read
    changes nothing, and is told of once.
    """

    def __init__(self, certificate: str, key: str) -> None:
        """Raises ClusterError: they cannot be read, or do not belong together."""
        self._files = Path(certificate), Path(key)
        self._version = self._look()
        self._latest = self._read()

    def context(self) -> ssl.SSLContext:
        """What a server is given: it hands each connection on to the latest."""
        context = self._read()
        context.sni_callback = self._choose
        return context

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
        """At each ClientHello, with or without a name in it."""
        if (version := self._look()) != self._version:
            self._version = version
            try:
                self._latest = self._read()
            except ClusterError as error:
                _LOG.error("the certificate of before still counts: %s", error)
        connection.context = self._latest

    def _look(self) -> _Version:
        try:
            return tuple((found.st_ino, found.st_mtime_ns) for found in (file.stat() for file in self._files))
        except OSError:
            return ()

    def _read(self) -> ssl.SSLContext:
        certificate, key = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise ClusterError(f"REST's certificate {certificate} with its key {key} cannot be used: {error}") from None
        return context


def trusting(authority: str | None) -> ssl.SSLContext:
    """For a client: certificates of this authority count, a file in PEM, and no others; with None those that this machine trusts.

    Raises ClusterError: the file cannot be read.
    """
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise ClusterError(f"the authority {authority} cannot be read: {error}; `cep keys` makes one, ca.crt") from None


def untrusted(error: BaseException, url: str) -> str | None:
    """Why TLS with `url` was not begun, in words, and what to do; None: that is not what is wrong."""
    for each in _causes(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return f"{url} shows a certificate that does not count: {_why(each)}"
        if isinstance(each, ssl.SSLError):
            if each.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
                return f"{url} does not speak TLS; without it its address begins with http://"
            return f"TLS with {url} was not begun: {each.reason or each}"
    return None


def _why(error: ssl.SSLCertVerificationError) -> str:
    match error.verify_code:
        case code if code == _EXPIRED:
            return "it has expired; `cep keys --renew` makes a new one"
        case code if code == _NOT_YET:
            return "it is not valid yet; the clock of one of the machines is wrong"
        case code if code in (_OTHER_NAME, _OTHER_ADDRESS):
            return f"it is for another host ({error.verify_message}); `cep keys --renew --name HOST` makes one for more names"
        case code if code in _UNKNOWN:
            return "it is not of an authority that is known here; give the cluster's, its ca.crt, as --ca FILE, CEP_CA or ca="
    return error.verify_message


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
