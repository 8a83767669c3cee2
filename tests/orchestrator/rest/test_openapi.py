"""The OpenAPI document, held against a real cluster: whatever its schemas let clients send, and much that they do not, every answer is one
that it declares, soon, and none blames the cluster."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import content_type_conformance, not_a_server_error, response_schema_conformance, status_code_conformance

from driver import LocalCluster
from orchestrator.rest.examples import EXAMPLES
from orchestrator.rest.models import QUERY_EXAMPLE
from tests.support.mutations import mutated

SOON_S = 30.0
"""An answer takes milliseconds; two cores are shared by many."""

#: `wait=true` waits for so long, and a poll too.
WAIT_S = 0.05
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
PLAIN = {**QUERY_EXAMPLE, "name": "plain", "operators": [], "outputs": [{"stream": "plain", "input": "visits"}]}
NAMES = {"name": ("per-ip", "visits", "per_ip"), "publisher": ("p",), "subscription": ("s",)}


@pytest.fixture(scope="module", autouse=True)
def deployed(cluster: LocalCluster) -> None:
    cluster.deploy(QUERY_EXAMPLE)


def ask_all(cluster: LocalCluster, examples: int) -> Counter[int]:
    """Every operation, with so many requests that its schema allows, and as many that it does not."""
    url, statuses = cluster.rest.url, Counter[int]()
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    for operation in [found.ok() for found in schema.get_all_operations()]:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE) if operation.body or operation.query else (GenerationMode.POSITIVE,):
            parameters = operation.path_parameters or operation.query or operation.body

            @settings(
                max_examples=examples if parameters else 1,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(operation.as_strategy(generation_mode=mode), st.randoms(use_true_random=False))
            def ask(case: Any, random: Random) -> None:
                aim(case, random)
                answer = case.call(base_url=url, timeout=SOON_S)
                statuses[answer.status_code] += 1
                case.validate_response(answer, checks=CHECKS)
                if answer.status_code in (201, 202):
                    clean_up(cluster)

            ask()
    return statuses


def aim(case: Any, random: Random) -> None:
    """At something that is there, half of the time; and it waits for no long."""
    for key, names in NAMES.items():
        if key in (case.path_parameters or {}) and random.random() < 0.5:
            case.path_parameters[key] = random.choice(names)
    known = {parameter.name for parameter in case.operation.query}
    for key in ("wait", "timeout"):
        if key in known and type(case.query.get(key, 0.0)) in (int, float) and (key in case.query or key == "timeout"):
            case.query[key] = min(case.query.get(key, WAIT_S), WAIT_S)


def clean_up(cluster: LocalCluster) -> None:
    """What was deployed by chance would wait for memory and cores."""
    for query in cluster.queries():
        if query["name"] != QUERY_EXAMPLE["name"]:
            cluster.rest.delete(f"/queries/{query['name']}")


def test_every_answer_is_declared(cluster: LocalCluster) -> None:
    statuses = ask_all(cluster, examples=2)
    assert sum(statuses.values()) > 100 and {200, 201, 204, 400, 404, 422} <= statuses.keys()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_answer_to_ten_thousand_requests_is_declared(cluster: LocalCluster) -> None:
    assert sum(ask_all(cluster, examples=200).values()) > 10_000


def test_the_examples_are_there_as_they_are(cluster: LocalCluster) -> None:
    """With their nulls, which mean something."""
    document = httpx.get(f"{cluster.rest.url}/openapi.json", timeout=SOON_S, trust_env=False, verify=False).json()
    content = document["paths"]["/queries"]["post"]["requestBody"]["content"]["application/json"]
    assert {name: content["examples"][name]["value"] for name in EXAMPLES} == EXAMPLES


def test_what_a_path_may_be_asked_with_is_all_that_is_declared(cluster: LocalCluster) -> None:
    found = httpx.request("OPTIONS", f"{cluster.rest.url}/streams/visits", timeout=SOON_S, trust_env=False, verify=False)
    assert found.status_code == 405 and found.headers["allow"] == "DELETE, GET, PUT"


def test_a_subquery_without_a_name_is_none(cluster: LocalCluster) -> None:
    """Of a query without buckets, too, where there is no other to be meant."""
    made = cluster.deploy(PLAIN)
    asked = {"subquery": "", "table": []}
    found = httpx.post(f"{cluster.rest.url}/queries/{made.name}/rebalance", json=asked, timeout=SOON_S, trust_env=False, verify=False)
    assert found.status_code == 422 and found.json()["pointer"] == "/subquery"
    made.delete()


def test_wrong_documents_over_http(cluster: LocalCluster) -> None:
    """In one request each, and many in one."""
    random = Random(7)
    documents = [mutated(random.choice(list(EXAMPLES.values())), random) for _ in range(100)]
    with httpx.Client(base_url=cluster.rest.url, timeout=SOON_S, trust_env=False, verify=False) as client:
        readable = [each for each in documents if client.post("/explain", json=each).status_code in (200, 409, 422)]
        assert len(readable) > 50
        outcomes = client.post("/queries:bulk?start=false", json=readable).json()
        assert {outcome["error"]["status"] for outcome in outcomes if outcome["error"]} <= {404, 409, 413, 422}
    clean_up(cluster)
