"""TLS of REST with a real server: whose certificate counts, what is said where none does, renewal, clients that do not go on."""

from __future__ import annotations

import datetime
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn

from cep.config import ClusterConfig
from cep.errors import ClusterError
from cep.secret import Secret
from cep.service import serving
from cep.service.tls import Certificate, trusting
from driver.cluster import Cluster
from driver.processes.certificates import KeyMaker, ends, names_of
from driver.processes.key_folder import KeyFolder
from orchestrator.rest_process import rest_settings
from tests.support.waiting import HANG_S, until

NOW = datetime.datetime.now(datetime.UTC)


def keys(folder: Path, *names: str, now: datetime.datetime = NOW, days: int = 30) -> KeyFolder:
    made = KeyFolder(folder)
    KeyMaker(made).make(names, now, days)
    return made


async def app(scope: dict[str, object], receive: object, send: object) -> None:
    """Answers as `/queries` of an empty cluster does."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})  # type: ignore[operator]
    await send({"type": "http.response.body", "body": b"[]"})  # type: ignore[operator]


class Server:
    """REST's server with these keys, in a thread."""

    def __init__(self, keys: KeyFolder, host: str = "127.0.0.1") -> None:
        config = ClusterConfig("", "", "127.0.0.1", 0, "", "", token=Secret("t"), tls_cert=str(keys.server), tls_key=str(keys.server_key))
        self.listener = socket.create_server((host, 0))
        self.port = self.listener.getsockname()[1]
        context = Certificate(str(keys.server), str(keys.server_key)).context()
        self.server = uvicorn.Server(rest_settings(app, config, context))  # type: ignore[arg-type]  # an application, if a small one
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        until(lambda: self.server.started)

    def _run(self) -> None:
        loop = serving.ServingLoop()
        loop.run_until_complete(self.server.serve(sockets=[self.listener]))
        loop.close()

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(HANG_S)


@pytest.fixture
def made(tmp_path: Path) -> KeyFolder:
    return keys(tmp_path / "keys", "rest.example")


@pytest.fixture
def server(made: KeyFolder) -> Iterator[Server]:
    running = Server(made)
    yield running
    running.close()


def ask(port: int, ca: Path | None, host: str = "127.0.0.1", scheme: str = "https") -> list[object]:
    with Cluster(f"{scheme}://{host}:{port}", "t", patience_s=0.5, ca=None if ca is None else str(ca)) as cluster:
        return list(cluster.queries())


def test_a_certificate_that_counts(server: Server, made: KeyFolder) -> None:
    assert ask(server.port, made.ca) == [] == ask(server.port, made.ca, "localhost")


def test_why_one_does_not_count_is_said_in_words_and_at_once(server: Server, made: KeyFolder, tmp_path: Path) -> None:
    other = keys(tmp_path / "other")
    for ca in (other.ca, None):
        with pytest.raises(
            ClusterError, match=r"shows a certificate that does not count: it is not of an authority that is known here.*--ca"
        ):
            ask(server.port, ca)
    elsewhere = Server(made, "127.0.0.2")
    with pytest.raises(ClusterError, match=r"it is for another host \(IP address mismatch.*cep keys --renew --name"):
        ask(elsewhere.port, made.ca, "127.0.0.2")
    elsewhere.close()
    with pytest.raises(ClusterError, match=r"if it speaks TLS, its address begins with https://"):
        ask(server.port, None, scheme="http")
    with pytest.raises(ClusterError, match="the authority /nowhere cannot be read"):
        ask(server.port, Path("/nowhere"))


@pytest.mark.parametrize(
    ("after", "days", "said"),
    [(-40, 30, "it has expired; `cep keys --renew`"), (40, 30, "it is not valid yet; the clock of one of the machines is wrong")],
)
def test_one_that_has_expired_or_is_not_valid_yet(made: KeyFolder, after: int, days: int, said: str) -> None:
    KeyMaker(made).renew((), NOW + datetime.timedelta(days=after), days)
    server = Server(made)
    with pytest.raises(ClusterError, match=f"does not count: {said}"):
        ask(server.port, made.ca)
    server.close()


def test_a_server_without_tls_is_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            connection.recv(100)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ClusterError, match="does not speak TLS; without it its address begins with http://"):
            ask(listener.getsockname()[1], None)
        thread.join(HANG_S)


def begun(port: int, ca: Path) -> ssl.SSLSocket:
    return trusting(str(ca)).wrap_socket(socket.create_connection(("127.0.0.1", port), HANG_S), server_hostname="127.0.0.1")


def shown(port: int, ca: Path) -> bytes:
    """The certificate that a new connection is shown."""
    with begun(port, ca) as tls:
        return tls.getpeercert(binary_form=True) or b""


def test_a_renewed_one_counts_from_the_next_connection_on(server: Server, made: KeyFolder, caplog: pytest.LogCaptureFixture) -> None:
    first = shown(server.port, made.ca)
    with httpx.Client(verify=trusting(str(made.ca)), timeout=HANG_S, trust_env=False) as client:
        url = f"https://127.0.0.1:{server.port}/"
        client.get(url)
        KeyMaker(made).renew(("another.example",), NOW, 60)
        second = shown(server.port, made.ca)
        assert first != second and client.get(url).status_code == 200  # the open connection goes on
        assert names_of(made.server)[0] == "another.example" and ends(made.server) > NOW + datetime.timedelta(days=59)
        made.server_key.write_text("half a key")
        assert shown(server.port, made.ca) == second == shown(server.port, made.ca)
        assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["the certificate of before still counts"]
        KeyMaker(made).renew((), NOW)
        assert shown(server.port, made.ca) not in (first, second)


def test_what_is_no_http_is_told_so_over_tls_too(server: Server, made: KeyFolder) -> None:
    """TLS has no half of a connection that could be closed."""
    with begun(server.port, made.ca) as tls:
        tls.sendall(b"\x00\x01\x02 no HTTP\r\n\r\n")
        answer = b"".join(iter(lambda: tls.recv(1000), b""))
    assert answer.startswith(b"HTTP/1.1 400") and b"problem+json" in answer


def test_who_does_not_go_on_with_tls_is_cut_off(made: KeyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEAD_S", 0.2)
    server = Server(made)
    address = ("127.0.0.1", server.port)
    with socket.create_connection(address, HANG_S) as silent, socket.create_connection(address, HANG_S) as noise:
        noise.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert silent.recv(1) == b"" and b"HTTP" not in noise.recv(100)
    assert ask(server.port, made.ca) == []
    server.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_are_not_spoken(server: Server, made: KeyFolder) -> None:
    context = trusting(str(made.ca))
    context.minimum_version, context.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", server.port), HANG_S) as plain, pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(plain, server_hostname="127.0.0.1")


def test_a_certificate_and_another_ones_key(made: KeyFolder, tmp_path: Path) -> None:
    other = keys(tmp_path / "other")
    with pytest.raises(ClusterError, match="cannot be used"):
        Certificate(str(made.server), str(other.server_key))
    with pytest.raises(ClusterError, match="No such file"):
        Certificate(str(made.server), "/nowhere")


def test_keys_are_their_owners_alone(made: KeyFolder) -> None:
    assert {file.name: file.stat().st_mode & 0o777 for file in made.path.iterdir()} == dict.fromkeys(
        ("ca.key", "client.crt", "client.key", "members.key", "server.crt", "server.key", "server.pem"), 0o600
    ) | {"ca.crt": 0o644}
    assert made.path.stat().st_mode & 0o777 == 0o700
    assert names_of(made.server) == ["rest.example", "localhost", "127.0.0.1", "::1"]


def test_keys_are_made_once_and_renewed_where_there_are_some(made: KeyFolder, tmp_path: Path) -> None:
    members, authority = made.members.read_text(), made.ca.read_text()
    with pytest.raises(ClusterError, match=r"there already.*--renew"):
        KeyMaker(made).make((), NOW)
    KeyMaker(made).renew((), NOW)
    assert (made.members.read_text(), made.ca.read_text()) == (members, authority) and names_of(made.server)[0] == "rest.example"
    with pytest.raises(ClusterError, match="there are no keys"):
        KeyMaker(KeyFolder(tmp_path / "none")).renew((), NOW)
    shutil.copy(made.client, made.path / "ca.key")
    with pytest.raises(ClusterError, match=r"the authority in .* cannot be used"):
        KeyMaker(made).renew((), NOW)
    (tmp_path / "file").touch()
    with pytest.raises(ClusterError, match=r"the folder .*/file for the keys cannot be made: File exists"):
        KeyMaker(KeyFolder(tmp_path / "file")).make((), NOW)


@pytest.mark.parametrize("name", ["client.crt", "server.pem"])
def test_keys_of_which_one_could_not_be_written_are_made_again(name: str, tmp_path: Path) -> None:
    """As where the disk was full: the server's certificate, by which they are known to be there, comes last."""
    folder = KeyFolder(tmp_path)
    (tmp_path / name).mkdir()
    with pytest.raises(ClusterError, match=rf"{name} cannot be written"):
        KeyMaker(folder).make((), NOW)
    (tmp_path / name).rmdir()
    KeyMaker(folder).make((), NOW)
    assert (tmp_path / name).is_file() and folder.server.is_file()
