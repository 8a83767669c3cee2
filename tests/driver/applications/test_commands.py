"""Applications on a real cluster: docs/applications.md does what it says, and what is broken off is taken up.

Tests `commands.py`, `applying.py`, `schema.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from cep.errors import Conflict, QueryError
from cep.service.yaml_documents import load_yaml
from driver import LocalCluster, Query, col
from driver.applications.applying import remove
from driver.applications.schema import application_schema
from driver.cli import app
from tests.connectors.shipped.test_http import Site
from tests.support.paths import ROOT
from tests.support.waiting import until

PAGE = (ROOT / "docs/applications.md").read_text()
CONTAINERS = (ROOT / "docs/containers.md").read_text()
FILES = {name: text for name, text in re.findall(r"`(\w+\.yaml)`[^`]*?:\n\n```yaml\n(.*?)```", PAGE, re.DOTALL)}


@pytest.fixture(autouse=True)
def no_applications(cluster: LocalCluster) -> Iterator[None]:
    yield
    for each in cluster.applications():
        list(remove(cluster, each["name"]))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's application, in the folder that we are in."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path / "shop.yaml"


def test_the_page(cluster: LocalCluster, shop: Path) -> None:
    (block,) = re.findall(r"```\n(\$ .*?)```", PAGE, re.DOTALL)
    for command in filter(None, block.split("$ ")):
        first, *lines = command.splitlines()
        name, *words = first.split()[1:]
        found = CliRunner().invoke(app, [name, "--url", cluster.rest.url, *words])
        assert found.output.splitlines() == lines, first
        assert found.exit_code == (first.startswith("cep diff")), first
    assert not cluster.queries() and not cluster.rest.get("/streams") and not cluster.applications()


def test_the_page_of_containers(cluster: LocalCluster, tmp_path: Path) -> None:
    """Its application would be made as it says; no broker is asked for that."""
    (text,) = re.findall(r"`orders.yaml`, on the host:\n\n```yaml\n(.*?)```", CONTAINERS, re.DOTALL)
    (shown,) = re.findall(r"```\n\$ cep diff orders.yaml\n(.*?)\$", CONTAINERS, re.DOTALL)
    (file := tmp_path / "orders.yaml").write_text(text)
    assert CliRunner().invoke(app, ["diff", "--url", cluster.rest.url, str(file)]).output == shown


def test_changed_while_it_runs(cluster: LocalCluster, shop: Path) -> None:
    """Upgraded where it can be; without `anew` nothing is lost; in Python."""
    cluster.apply(shop)
    text = shop.read_text()
    shop.write_text(text.replace("count(*) AS visits", "count(*) AS visits, max(ts) AS last"))
    [wanted, reader] = cluster.apply(shop, dry_run=True)
    assert (wanted.name, wanted.action, reader.name) == ("per-ip", "replace", "busy")
    with pytest.raises(Conflict, match="these cannot be upgraded with all that they know; --anew"):
        cluster.apply(shop)
    shop.write_text(text)
    [change] = cluster.apply(shop, {"span": "1m"}, dry_run=True)
    assert change.action == "fresh" and any("begins with none" in line for line in change.lines)
    assert [each.action for each in cluster.apply(shop, {"span": "1m"}, anew=True)] == ["fresh"]
    assert [each.action for each in cluster.apply(shop, {"span": "1m"})] == []
    shop.write_text(text.replace("GROUP BY ip,", "WHERE ip <> 'x' GROUP BY ip,"))
    [change] = cluster.apply(shop, {"span": "1m"})
    assert (change.name, change.action) == ("per-ip", "upgrade")
    shop.write_text(shop.read_text().partition("  busy:")[0])
    assert [(each.action, each.name) for each in cluster.apply(shop)] == [("remove", "all"), ("remove", "busy")]
    assert {each["name"] for each in cluster.queries()} == {"per-ip"}


def test_what_cannot_be_deployed_takes_the_place_of_nothing(cluster: LocalCluster, shop: Path) -> None:
    """A query that ran was deleted for one that was refused then."""
    text = shop.read_text()
    wrong = text.replace("{recover: on-commit}", "{recover: on-commit, parallelism: {SQ9: 2}}")
    assert wrong != text
    shop.write_text(wrong)
    with pytest.raises(Conflict, match=r"query 'per-ip': .* no subquery 'SQ9'"):
        cluster.apply(shop)
    assert not cluster.queries()
    shop.write_text(text)
    cluster.apply(shop)
    shop.write_text(wrong)
    with pytest.raises(Conflict, match=r"query 'per-ip': .* no subquery 'SQ9'"):
        cluster.apply(shop, anew=True)
    assert {each["name"]: each["state"] for each in cluster.queries()}["per-ip"] == "running"


def test_what_is_broken_off_is_taken_up_and_found(cluster: LocalCluster, shop: Path) -> None:
    """A query that only the cluster can refuse: what comes before it is there, and belongs to the application."""
    text = shop.read_text()
    shop.write_text(
        text.replace(
            "outputs: [{stream: busy, input: often}]", "outputs: [{stream: busy, input: often}]\n    options: {recover: on-commit}"
        )
    )
    with pytest.raises(QueryError, match="query 'busy': recover: stream 'per-ip' cannot be read again"):
        cluster.apply(shop)
    assert cluster.applications() == [{"name": "shop", "streams": ["visits"], "queries": ["per-ip", "busy", "all"], "connectors": []}]
    shop.write_text(text)
    assert [(each.action, each.name) for each in cluster.apply(shop)] == [("create", "busy"), ("create", "all")]
    found = CliRunner().invoke(app, ["delete", "--url", cluster.rest.url, "--application", "shop"])
    assert found.exit_code == 0 and not cluster.queries() and not cluster.applications()


def test_what_others_have_and_read(cluster: LocalCluster, shop: Path) -> None:
    cluster.apply(shop)
    other = shop.with_name("other.yaml")
    other.write_text(shop.read_text().replace("application: shop", "application: other"))
    with pytest.raises(
        Conflict, match="application 'other': stream 'visits': it belongs to application 'shop'; query 'per-ip': it belongs"
    ):
        cluster.apply(other)
    cluster.deploy(Query("reader").source("per-ip").filter("all", col("visits") > 0).output("read"))
    shop.write_text("application: shop\ninclude: [streams.yaml]\n")
    with pytest.raises(Conflict, match="query 'per-ip': query 'reader', which is not of it, reads it"):
        cluster.apply(shop)
    assert len(cluster.queries()) == 4


def test_with_connectors(cluster: LocalCluster, shop: Path) -> None:
    """Applied, at work, changed while it runs, refused, removed."""
    folder, orders = shop.parent, shop.with_name("orders.yaml")
    (folder / "orders").mkdir()
    variables = {"folder": str(folder)}
    assert [(each.kind, each.name, each.action) for each in cluster.apply(orders, variables)] == [
        ("stream", "orders", "create"),
        ("connector", "totals", "create"),
        ("query", "per-second", "create"),
        ("connector", "orders", "create"),
    ]

    def put(file: str, seconds: range) -> None:
        lines = [json.dumps({"id": i, "at": i * 100, "price": 0.5}) for second in seconds for i in range(second * 10, second * 10 + 10)]
        (folder / f".{file}").write_text("\n".join(lines))
        (folder / f".{file}").rename(folder / "orders" / file)

    def answers() -> list[list[float]]:
        lines = (line for file in sorted((folder / "totals").glob("totals-*")) for line in file.read_text().splitlines())
        return [[*json.loads(line).values()] if line[0] == "{" else [*map(float, line.split(","))] for line in lines]

    put("1.jsonl", range(10))
    until(lambda: answers() == [[10, 5]] * 8)  # a second is no longer open when a row has come that is one later
    assert cluster.apply(orders, variables) == []
    text = orders.read_text()
    orders.write_text(text.replace("format: csv", "format: json"))
    assert [(each.name, each.action) for each in cluster.apply(orders, variables)] == [("totals", "redeclare")]
    put("2.jsonl", range(10, 20))
    until(lambda: answers() == [[10, 5]] * 18)
    orders.write_text(text.replace("roll_s: 1", "rolls_s: 1"))
    with pytest.raises(QueryError, match=r"orders\.yaml: no option 'rolls_s'") as error:
        cluster.apply(orders, variables)
    assert error.value.pointer == "/sinks/totals/rolls_s"
    orders.write_text(text.partition("sinks:")[0])
    assert [(each.kind, each.name, each.action) for each in cluster.apply(orders, variables)] == [("connector", "totals", "remove")]
    found = CliRunner().invoke(app, ["delete", "--url", cluster.rest.url, "-f", str(orders), "--set", f"folder={folder}"])
    assert found.output.splitlines() == [
        "connector orders: deleted",
        "query per-second: deleted",
        "stream orders: deleted",
        "orders: deleted",
    ]
    assert not cluster.connectors() and not cluster.applications()


@pytest.mark.long
def test_the_page_of_ise(cluster: LocalCluster, tmp_path: Path) -> None:
    """Posts are asked for with their secret, located, counted and posted."""
    (text,) = re.findall(r"`posts.yaml`:\n\n```yaml\n(.*?)```", (ROOT / "docs/ise.md").read_text(), re.DOTALL)
    (tmp_path / "token").write_text("hunter22")
    (tmp_path / "places.csv").write_text("place,north,east\nparis,49,2\nberlin,53,13\n")
    (file := tmp_path / "posts.yaml").write_text(text.replace("${env:NETWORK_TOKEN}", f"${{file:{tmp_path}/token}}"))
    network, board = Site(), Site()
    posts = [("00:01", " Paris"), ("00:02", "PARIS"), ("00:03", "Berlin "), ("00:04", "the moon"), ("03:20", "paris")]
    lines = [json.dumps({"at": f"2024-05-01T12:{at}Z", "author": "a", "place": place, "text": "water"}) for at, place in posts]
    network.page = "\n".join(lines).encode()
    network.tag = '"1"'
    cluster.apply(file, {"network": network.url, "map": board.url, "folder": str(tmp_path)})
    until(lambda: board.requests)
    found = sorted(tuple(json.loads(line).values()) for _, body in board.requests for line in body.splitlines())
    assert found == [(49, 2, 2), (53, 13, 1)]
    assert network.asked[0]["Authorization"] == "Bearer hunter22"
    network.close()
    board.close()


def test_the_schema() -> None:
    """The page's files are of it; what reading refuses, it does, too."""
    schema = application_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    checks = jsonschema.Draft202012Validator(schema)
    for text in FILES.values():
        checks.validate(load_yaml(text.replace('"${least}"', "2")))
    for wrong in ({"stream": {}}, {"queries": {"q": {"sql": "x", "file": "y"}}}, {"streams": {"s": {}}}, {"variables": {"x": []}}):
        with pytest.raises(jsonschema.ValidationError):
            checks.validate(wrong)
    assert json.loads(CliRunner().invoke(app, ["schema"]).output) == schema


def test_the_schema_with_connectors(cluster: LocalCluster) -> None:
    """The options of each are checked, but for what is a variable; and by its models, so those of an author too."""
    schema = json.loads(CliRunner().invoke(app, ["schema", "--connectors", "--url", cluster.rest.url]).output)
    jsonschema.Draft202012Validator.check_schema(schema)
    checks = jsonschema.Draft202012Validator(schema)
    for text in FILES.values():
        checks.validate(load_yaml(text.replace('"${least}"', "2")))

    def wrong(**sink: Any) -> list[str]:
        return [str(each.message) for each in checks.iter_errors({"sinks": {"s": {"stream": "x", **sink}}})]

    assert not wrong(connector="kafka", servers="${kafka}", topic="${topic}", commit_s="${often}")
    assert "'topc' was unexpected" in wrong(connector="kafka", servers="a", topic="t", topc="t")[0]
    assert "'topic' is a required property" in wrong(connector="kafka", servers="a")[0]
    assert wrong(connector="kafka", servers="a", topic="t", commit_s="often") and wrong(
        connector="kafka", servers="a", topic="t", format="xml"
    )
    assert "'kafak' is not one of" in wrong(connector="kafak")[0]
