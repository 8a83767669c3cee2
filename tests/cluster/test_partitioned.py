"""Files of which each has keys of its own, read by replicas of a query in a cluster: on a machine with one node they share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from driver import CepError, LocalCluster, Query, col, event, files, row

BASE_US = 1_700_000_000_000_000
TYPES = {"t": "timestamp[us]", "k": int, "v": int}


def write(folder: Path, keys_of: Mapping[str, Sequence[int]], rows: int = 3000) -> str:
    """A file of each name, with rows of its keys, two to the millisecond. Returns their paths."""
    folder.mkdir()
    schema = pa.schema([("t", pa.timestamp("us")), ("k", pa.int64()), ("v", pa.int64())])
    for name, keys in keys_of.items():
        columns = [[BASE_US + 500 * i for i in range(rows)], [keys[i % len(keys)] for i in range(rows)], list(range(rows))]
        with pa.ipc.new_file(folder / f"{name}.arrow", schema) as out:
            out.write_batch(pa.record_batch(columns, schema=schema))
    return str(folder / "*.arrow")


def pairs(name: str, paths: str, replicas: int) -> Query:
    declared = files(f"{name}.rows", TYPES, paths=paths, format="arrow", event_time="t", disorder="0s", partitioned_by="k")
    pair = event("a", col("v") % 3 == 0).then(event("b", col("v") % 3 == 1))
    found = Query(name).source(declared).pattern("p", pair, by="k", within="1s", measures={"v": row("b")["v"]})
    return found.output(f"{name}.pairs").options(replicas=replicas)


def answers(cluster: LocalCluster, query: Query) -> list[dict[str, Any]]:
    running = cluster.deploy(query, start=False)
    found = running.subscribe(f"{query.name}.pairs")
    running.start()
    return sorted(pa.Table.from_batches(list(found)).to_pylist(), key=str)


def test_replicas_of_a_pattern_answer_as_one(cluster: LocalCluster, tmp_path: Path) -> None:
    paths = write(tmp_path / "good", {"a": [1, 2, 3], "b": [4], "c": [5, 6]})
    queries = [pairs(f"apart{replicas}", paths, replicas) for replicas in (1, 2)]
    assert "each replica reads files of its own (2, 1)" in cluster.explain(queries[1])
    one, two = (answers(cluster, query) for query in queries)
    assert one == two != []


def test_a_key_in_two_files_is_named(cluster: LocalCluster, tmp_path: Path) -> None:
    paths = write(tmp_path / "bad", {"a": [1, 2], "b": [2, 3]})
    with pytest.raises(CepError, match=r"partitioned by k, but rows with k=2 are in '.*a\.arrow' and in '.*b\.arrow'"):
        cluster.deploy(pairs("torn", paths, 2))
