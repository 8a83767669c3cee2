"""Every page of a console that is a process of its own, over HTTP alone: what is known is in it, as text, and the process leaves nothing.

Tests `app.py`, `shell.py`, `tables.py`, `watch.py`, `drawing.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from driver import LocalCluster, Query, col, stream
from tests.support.console_process import EVIL, console_of
from tests.support.waiting import until

VISITS = stream("visits", ip=str, ts="timestamp[ms]", event_time="ts", disorder="1s")
TEXT = "<b>no markup"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("console")


@pytest.fixture(scope="module")
def client(cluster: LocalCluster, folder: Path) -> Iterator[httpx.Client]:
    cluster.deploy(Query(f"q {TEXT}").source(VISITS).filter("some", col("ip") != TEXT).output("passed"))
    with console_of(cluster.rest.url, folder) as url, httpx.Client(base_url=url, timeout=60, trust_env=False, verify=False) as made:
        yield made


def shown(client: httpx.Client, page: str, *words: str) -> str:
    """The page as soon as all of it is there."""

    def asked() -> str:
        text = client.get(page).text
        return text if all(word in text for word in words) else ""

    return until(asked)


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("/", ("Machines", "im-0", "im-1", "SQ1/0")),
        ("/queries", ("rows out/s", "running")),
        ("/editor", ("What it would become", "deploy …")),
        ("/streams", ("behind the clock", "passed", "visits")),
        ("/connectors", ("waiting", "what is wrong")),
        ("/history", ("What happened", "latency, p99")),
    ],
)
def test_every_page(client: httpx.Client, page: str, words: tuple[str, ...]) -> None:
    text = shown(client, page, *words)
    assert TEXT not in text
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", text)  # nothing of it is elsewhere


def test_a_query(client: httpx.Client) -> None:
    name = f"q {TEXT}"
    text = shown(client, f"/queries/{quote(name, safe='')}", "round-robin", "stop …", "Flame graph", "some")
    assert TEXT not in text and "&lt;b&gt;no markup" in text


def test_one_that_is_not_there(client: httpx.Client) -> None:
    text = shown(client, f"/queries/{quote(EVIL.replace('/', ''), safe='')}", "is not there")
    assert 'onerror="window' not in text and "<img" not in text


def test_light_and_dark(client: httpx.Client) -> None:
    turned = client.get("/theme/dark", headers={"referer": f"{client.base_url}/queries"})
    assert (turned.status_code, turned.headers["location"]) == (303, "/queries")
    assert "theme: dark" in client.get("/").text
    assert client.get("/theme/dark", headers={"referer": "http://x//evil.example"}).headers["location"] == "/"
    client.cookies.clear()
    assert "theme: auto" in client.get("/").text


def test_files_of_the_page_are_its_own(client: httpx.Client) -> None:
    text = client.get("/").text
    files = set(re.findall(r"""(?:src|href)=["'](/[^"']+\.(?:js|css))["']""", text))
    assert len(files) >= 3
    assert {client.get(file).status_code for file in files} == {200}


def test_it_is_guarded_and_leaves_nothing(client: httpx.Client, folder: Path) -> None:
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 403
    assert sorted(each.name for each in folder.iterdir()) == ["console.log"]
    assert "Traceback" not in (folder / "console.log").read_text()
