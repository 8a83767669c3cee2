"""The data doors of REST, over a real cluster: a client with nothing but HTTP publishes and reads."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from driver import TIME, LocalCluster, Query, count, stream

VISITS = stream("visits", ip=str, ts="timestamp[ms]", event_time="ts", disorder="0s")
QUERY = Query("per-ip").source(VISITS).aggregate("window", TIME("1s"), by="ip", visits=count()).output("per_ip")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(instances=1) as running:
        yield running


def test_records_in_answers_out(cluster: LocalCluster) -> None:
    cluster.deploy(QUERY)
    with httpx.Client(base_url=cluster.rest.url, timeout=60, trust_env=False) as client:
        first = client.get("/streams/per_ip/answers").json()
        assert first == {"rows": [], "ended": False}
        records = [{"ip": "10.0.0.1", "ts": 1_700_000_000_000}, {"ip": "10.0.0.2", "ts": 1_700_000_000_500}]
        assert client.post("/streams/visits/records?end=true", json=records).json() == {"rows": 2}
        rows: list[dict[str, object]] = []
        ended = False
        while not ended:
            answer = client.get("/streams/per_ip/answers?wait=20").json()
            rows, ended = rows + answer["rows"], answer["ended"]
    assert sorted(row["ip"] for row in rows) == ["10.0.0.1", "10.0.0.2"]
    assert [row["visits"] for row in rows] == [1, 1]


def test_rows_that_do_not_fit_are_a_problem_document(cluster: LocalCluster) -> None:
    cluster.declare(stream("numbers", x="int64"))
    with httpx.Client(base_url=cluster.rest.url, timeout=60, trust_env=False) as client:
        answer = client.post("/streams/numbers/records", json=[{"y": 1}])
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert "unknown fields ['y']" in answer.json()["detail"]
