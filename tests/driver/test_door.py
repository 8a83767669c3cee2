"""A cluster that is open to others, from the command line to the last process: tokens, certificates, ZooKeeper over TLS, the audit log."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from cep.errors import ClusterError, Forbidden, Unauthorized
from cep.secret import Secret
from cep.service.access import OF_STREAMS, Role
from cep.service.token_file import Tokens, add_token
from driver import LocalCluster
from driver.cli import app
from driver.cluster import Cluster
from driver.gateway import ROUTES, Gateway, make_app
from driver.processes.door import Door
from orchestrator.rest.models import QUERY_EXAMPLE
from tests.support.one_cluster import uncompiled
from tests.support.waiting import HANG_S, until

RUNNER = CliRunner()
ROLES = {"pub": "publish:visits", "sub": "subscribe:per_ip", "look": "read", "boss": "admin"}


def cep(*arguments: str, status: int = 0) -> str:
    done = RUNNER.invoke(app, arguments)
    assert done.exit_code == status, (done.output, done.exception)
    return str(done.output)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("door")


@pytest.fixture(scope="module")
def tokens(folder: Path) -> dict[str, str]:
    """As `cep token add` prints them."""
    file = str(folder / "tokens")
    return {name: cep("token", "add", name, "--role", role, "--tokens", file).strip() for name, role in ROLES.items()}


@pytest.fixture(scope="module")
def cluster(folder: Path, tokens: dict[str, str]) -> Iterator[LocalCluster]:
    cep("keys", "--keys", str(folder / "keys"), "--name", "cep.example")
    file, keys = str(folder / "tokens"), str(folder / "keys")
    with uncompiled(1, tokens=file, keys=keys, zookeeper_tls=True, numa=False) as running:
        running.deploy(QUERY_EXAMPLE)
        yield running


def client(cluster: LocalCluster, token: str | None) -> Cluster:
    return Cluster(cluster.rest.url, token, ca=cluster.facts["ca"])


def test_each_token_may_do_what_its_role_says(cluster: LocalCluster, tokens: dict[str, str]) -> None:
    assert cluster.rest.url.startswith("https://127.0.0.1:")
    with client(cluster, tokens["look"]) as look:
        assert [query["name"] for query in look.queries()] == ["per-ip"]
        for refused in (lambda: look.deploy(QUERY_EXAMPLE), lambda: look.query("per-ip").stop(), lambda: look.publisher("visits")):
            with pytest.raises(Forbidden, match="needs the role"):
                refused()
    with client(cluster, None) as stranger, pytest.raises(Unauthorized, match="needs its token"):
        stranger.queries()
    with client(cluster, "wrong") as stranger, pytest.raises(Unauthorized):
        stranger.query("per-ip")
    with pytest.raises(ClusterError, match="characters that no token has") as odd:
        client(cluster, f"{tokens['look']}\n")
    assert tokens["look"] not in str(odd.value)


def test_who_asked_for_what_admins_alone_are_told(cluster: LocalCluster, tokens: dict[str, str]) -> None:
    with client(cluster, tokens["look"]) as look, client(cluster, tokens["boss"]) as boss:
        assert {each["kind"] for each in look.history("per-ip")["events"]} == {"query"}
        asked = until(lambda: [each for each in boss.history("per-ip")["events"] if each["kind"] == "asked" and each["status"] == 201])
        assert [(each["what"], each["token"]) for each in asked] == [("deploy", "cluster")]
        for refused in (lambda: look.preview(QUERY_EXAMPLE), lambda: look.query("per-ip").flame(1)):
            with pytest.raises(Forbidden, match="needs the role"):
                refused()


def test_a_publisher_and_a_reader_over_rest_and_over_the_data_plane(cluster: LocalCluster, tokens: dict[str, str]) -> None:
    """A token that may only publish needs no other role for it."""
    context = ssl.create_default_context(cafile=cluster.facts["ca"])
    with httpx.Client(base_url=cluster.rest.url, verify=context, timeout=HANG_S, trust_env=False) as http:
        reader = {"Authorization": f"Bearer {tokens['sub']}"}
        assert http.get("/streams/per_ip/answers?reader=r", headers=reader).json() == {"rows": [], "ended": False}
        with client(cluster, tokens["pub"]) as publishing, publishing.publisher("visits", keep_open=True) as out:
            out.send([{"ip": "10.0.0.1", "ts": 1_700_000_000_000}])
        writer = {"Authorization": f"Bearer {tokens['pub']}"}
        rows = [{"ip": "10.0.0.2", "ts": 1_700_000_001_000}]
        assert http.post("/streams/visits/records", json=rows, headers=reader).status_code == 403
        assert http.get("/streams/per_ip/answers?reader=r", headers=writer).status_code == 403
        assert http.post("/streams/visits/records?end=true", json=rows, headers=writer).json() == {"rows": 1}

        def answered() -> int:
            found = http.get("/streams/per_ip/answers?reader=r&wait=1", headers=reader).json()["rows"]
            got.extend(found)
            return len(got)

        got: list[dict[str, object]] = []
        until(lambda: answered() == 2)
        assert {row["ip"] for row in got} == {"10.0.0.1", "10.0.0.2"}


def test_who_has_asked_is_told_on_the_command_line(cluster: LocalCluster, tokens: dict[str, str]) -> None:
    where = ("--url", cluster.rest.url, "--ca", cluster.facts["ca"], "--token", tokens["boss"])
    lines = [json.loads(line) for line in cep("audit", "--json", *where).splitlines()]
    assert (lines[0]["token"], lines[0]["action"], lines[0]["about"]) == ("cluster", "deploy", "per-ip")
    assert ("look", "stop", 403) in [(line["token"], line["action"], line["status"]) for line in lines]
    assert "per-ip" in cep("audit", *where) and "per-ip" in cep("status", *where)


def test_no_secret_is_in_what_a_cluster_leaves(cluster: LocalCluster, tokens: dict[str, str], folder: Path) -> None:
    """Its logs, its reports, its command lines, what REST says of it."""
    home = Path(cluster.home)
    secrets = {*tokens.values(), str(cluster.rest.client.headers["authorization"]).removeprefix("Bearer ")}
    secrets |= {(home / "zookeeper-secret").read_text(), json.loads((folder / "keys" / "members.key").read_text())["secret"]}
    texts = {str(file): file.read_text(errors="replace") for file in home.glob("*.log")}
    texts |= {str(file): file.read_text(errors="replace") for file in (home / "audit").iterdir()}
    texts |= {f"/proc/{pid}/cmdline": Path(f"/proc/{pid}/cmdline").read_text() for _, pid in cluster.processes()}
    texts |= {path: json.dumps(cluster.rest.get(path)) for path in ("/cluster", "/health", "/queries/per-ip", "/keys/members", "/audit")}
    assert len(texts) > 8
    assert [(name, secret) for name, text in texts.items() for secret in secrets if secret in text] == []


def test_the_members_pair_is_rotated_from_the_command_line(cluster: LocalCluster, tokens: dict[str, str]) -> None:
    where = ("--url", cluster.rest.url, "--ca", cluster.facts["ca"], "--token", tokens["boss"])
    before = cluster.rest.get("/keys/members")["members"]
    after = cep("keys", "--rotate-members", *where).rpartition(" ")[2].strip()
    assert after != before and cluster.rest.get("/keys/members")["members"] == after


def test_tokens_are_listed_and_removed(folder: Path, tokens: dict[str, str]) -> None:
    file = folder / "tokens"
    listed = cep("token", "list", "--tokens", str(file))
    assert all(name in listed and role in listed for name, role in ROLES.items()) and not any(token in listed for token in tokens.values())
    made = cep("token", "add", "for-now", "--role", "read", "--role", "publish:*", "--tokens", str(file)).strip()
    [entry] = [each for each in json.loads(cep("token", "list", "--json", "--tokens", str(file))) if each["name"] == "for-now"]
    assert entry["roles"] == ["publish:*", "read"] and made not in json.dumps(entry)
    assert "removed" in cep("token", "remove", "for-now", "--tokens", str(file))
    assert Tokens(None, file).access(made) is None


def test_without_a_folder_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CEP_RUN", raising=False)
    for command in (("token", "list"), ("keys",)):
        assert "or the run folder in CEP_RUN" in str(RUNNER.invoke(app, command).exception)
    with pytest.raises(ClusterError, match="ZooKeeper over TLS needs keys"):
        Door(zookeeper_tls=True).zookeeper_keys()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_gateway_asks_for_the_same(cluster: LocalCluster, tmp_path: Path, anyio_backend: str) -> None:
    """A process of this user that reaches its socket may do no more than its token."""
    file = tmp_path / "tokens"
    made = {
        role: add_token(file, role.replace(":", "."), [Role.parse(role)], "").text
        for role in ("publish:a", "subscribe:a", "deploy", "read")
    }
    gateway = make_app(Gateway(cluster), Tokens(Secret("own"), file))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(gateway), base_url="http://gateway") as client:
        for (method, path), kind in ROUTES.items():
            for token in (None, "wrong", *made.values()):
                headers = {} if token is None else {"Authorization": f"Bearer {token}"}
                body = None if method == "GET" else b"{"
                asked = [{"stream": stream, "reader": "r", "timeout": 0.1} for stream in ("a", "b")]
                found = [await client.request(method, path, params=each, headers=headers, content=body) for each in asked]
                answers = [each.json() if each.headers["content-type"] == "application/json" else {} for each in found]
                of_stream = kind in OF_STREAMS
                good = token == made[f"{kind}:a" if of_stream else kind]
                wrong = "Unauthorized" if token in (None, "wrong") else "Forbidden"
                refused = [each.get("error") in ("Unauthorized", "Forbidden") for each in answers]
                assert refused == [not good, of_stream or not good], (path, token)
                assert not refused[1] or answers[1]["error"] == wrong
