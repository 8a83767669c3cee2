"""The page's application of Kafka and PostgreSQL, with a real broker and server: applied, at work, changed while rows come, removed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from driver import LocalCluster
from driver.cli import app
from tests.support.kafka_broker import Broker, broker, consumed, produce
from tests.support.paths import ROOT
from tests.support.postgres import INITDB, PostgresServer, postgres
from tests.support.waiting import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not shutil.which("mvn"), reason="needs Maven"),
    pytest.mark.skipif(not INITDB, reason="needs PostgreSQL"),
]
PAGE = (ROOT / "docs/applications.md").read_text()
(TEXT,) = re.findall(r"`cards.yaml`:\n\n```yaml\n(.*?)```", PAGE, re.DOTALL)
(TABLE,) = re.findall(r"`(CREATE TABLE revenue .*?)`", PAGE)
CARDS, STEP_MS, DISORDER_ROWS = 100, 10, 100
PART = 10_000  # rows; a card pays thrice little, then much
BEGAN_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(2) as made:
        yield made


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(tmp_path_factory.mktemp("kafka")) as made:
        made.make_topic("payments", 2)
        made.make_topic("alarms")
        yield made


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with postgres() as made:
        made.connect().execute(TABLE)
        yield made


def payment(i: int) -> bytes:
    amount = 150.0 if i // CARDS % 4 == 3 else 5.0
    return json.dumps({"at": BEGAN_MS + i * STEP_MS, "shop": f"s{i % 7}", "card": f"c{i % CARDS}", "amount": amount}).encode()


def pay(kafka: Broker, part: int) -> None:
    for partition in range(2):
        rows = range(part * PART, (part + 1) * PART)
        produce(kafka.servers, "payments", [payment(i) for i in rows if i % 2 == partition], partition)


def alarms(kafka: Broker) -> list[tuple[str, str]]:
    return [(row["card"], row["at"]) for row in map(json.loads, consumed(kafka.servers, "alarms"))]


def counted(admin: psycopg.Connection) -> tuple[int, int]:
    """Payments and windows."""
    (found,) = admin.execute("SELECT coalesce(sum(payments), 0)::bigint, count(*) FROM revenue").fetchall()
    return found[0], found[1]


def test_the_application(cluster: LocalCluster, kafka: Broker, database: PostgresServer, tmp_path: Path) -> None:
    (file := tmp_path / "cards.yaml").write_text(TEXT)
    told = ["--url", cluster.rest.url, "--set", f"kafka={kafka.servers}", "--set", f"database={database.conninfo}"]

    def cep(command: str, *more: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [command, *more, str(file), *told])
        return done.exit_code, done.output

    parts = ["stream payments", "query revenue", "query alarms", "connector payments", "connector revenue-table", "connector alarms-topic"]
    assert cep("diff") == (1, "".join(f"+ {part}: to be created\n" for part in parts))
    assert cep("apply", "--dry-run")[1] == cep("diff")[1] and not cluster.queries()
    code, said = cep("apply")
    assert code == 0 and said.endswith("cards: 6 changes\n") and cep("apply")[1] == "cards: 0 changes\n"
    pay(kafka, 0)
    until(lambda: alarms(kafka))
    file.write_text(TEXT.replace("window_start, window_end\n", "window_start, window_end HAVING count(*) > 1\n"))
    assert cep("diff")[1].startswith("~ query revenue: to be upgraded\n")
    with ThreadPoolExecutor(1) as threads:
        paying = threads.submit(lambda: [pay(kafka, part) for part in range(1, 4)])
        assert cep("apply")[1].splitlines()[-1] == "cards: 1 change"
        paying.result()
    passed = 4 * PART - DISORDER_ROWS
    until(lambda: len(alarms(kafka)) >= passed // (4 * CARDS) * CARDS)
    assert len(set(alarms(kafka))) == len(alarms(kafka)) == passed // (4 * CARDS) * CARDS
    closed = passed // 1000  # windows of 10 s
    with database.connect() as admin:
        until(lambda: counted(admin) >= (closed * 1000, closed * 7))
        assert counted(admin) == (closed * 1000, closed * 7)
    assert cep("apply", "--set", "least=149")[0] == 1
    assert cep("apply", "--set", "least=149", "--anew")[0] == 0
    assert CliRunner().invoke(app, ["delete", "--url", cluster.rest.url, "--application", "cards"]).exit_code == 0
    assert not (cluster.queries() or cluster.connectors() or cluster.rest.get("/streams") or cluster.applications())
