"""The example of docs/features/streams_that_grow.md does what the page says."""

from __future__ import annotations

import re
from typing import Any

from driver import LocalCluster, Query, col, stream
from tests.support.paths import ROOT


def test_the_example_of_the_page(cluster: LocalCluster) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/features/streams_that_grow.md").read_text(), re.DOTALL)
    there: dict[str, Any] = {"cluster": cluster, "stream": stream, "Query": Query, "col": col}
    exec(code, there)
    old, new = ([row for batch in there[name] for row in batch.to_pylist()] for name in ("old", "new"))
    assert sorted(row["ip"] for row in old) == ["10.0.0.1", "10.0.0.2"]
    assert sorted((row["ip"], row["price"]) for row in new) == [("10.0.0.1", None), ("10.0.0.2", 7)]
