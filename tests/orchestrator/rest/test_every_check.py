"""Schemathesis with all its checks over the whole OpenAPI document of a cluster with tokens: examples, the bounds of each schema,
what is drawn by chance, and requests that follow from each other's answers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from driver import LocalCluster
from orchestrator.rest.models import QUERY_EXAMPLE

TOKEN = "t" * 40
REQUESTS = 10_000
#: A schema says what a document looks like, and not all that it means: what makes no sense is refused, by one of these.
CONFIG = """
[parameters]
"query.timeout" = 0.05

[[operations]]
include-path = ["/publishers", "/streams/{name}/answers"]
parameters = { "query.wait" = 0.05 }

# The bounds of a whole query, each with each, are more requests than a day has: what is drawn by chance has them too.
[[operations]]
include-path-regex = "^/(queries|explain|streams)"
include-method = ["POST", "PUT"]
phases = { coverage = { enabled = false } }

# It takes as long as it is asked to, up to half a minute: 330 of them were two thirds of the whole time.
[[operations]]
include-path = "/queries/{name}/flame"
generation = { max-examples = 30 }

[checks]
max_response_time = 60.0

[checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "401", "403", "404", "409", "410", "413", "415", "422", "429", "503", "507"]

[checks.negative_data_rejection]
expected-statuses = ["4xx", "503", "507"]

[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "503", "507"]
"""


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_ten_thousand_requests_find_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No status that is not declared, no 5xx but 503 and 507, nothing that takes a minute. Some fifteen minutes."""
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    with LocalCluster(instances=1, data=[tmp_path], token=TOKEN, numa=False) as cluster:
        cluster.deploy(QUERY_EXAMPLE)
        asked = ["run", f"{cluster.rest.url}/openapi.json", "--checks", "all", "--max-examples", "330", "--seed", "1", "--no-color"]
        asked += ["-H", f"Authorization: Bearer {TOKEN}", "--request-timeout", "120", "--continue-on-failure", "--max-failures", "100"]
        command = [str(Path(sys.executable).parent / "schemathesis"), *asked]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        found = re.search(r"([\d,]+) generated", ran.stdout)
        assert ran.returncode == 0, ran.stdout[-20_000:]
        assert found is not None and int(found[1].replace(",", "")) > REQUESTS
        with capsys.disabled():
            print(f"\n{found[1]} requests", flush=True)
        assert cluster.queries()
