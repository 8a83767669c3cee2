"""A document of a query, however wrong, is refused with a reason or planned; it is never a bug that is not caught."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.errors import CepError, QueryError
from cep.model import query as queries
from cep.model.references import check_references
from cep.model.streams import TextFiles
from cep.model.topology import Topology
from cep.plan import physical
from cep.plan.explain import explain
from cep.plan.physical import Worker
from cep.plan.planner import plan
from orchestrator.file_sources import checked_files, resolve_paths
from orchestrator.rest.examples import EXAMPLES
from orchestrator.rest.models import QUERY_EXAMPLE
from orchestrator.state.desired_nodes import encode
from tests.support.mutations import mutated

#: A query with all options, files to read and files to write.
FULL: dict[str, Any] = QUERY_EXAMPLE | {
    "streams": [QUERY_EXAMPLE["streams"][0] | {"files": {"paths": ["/data/a.csv"], "format": "text"}}],
    "outputs": [{"stream": "o", "input": "window", "files": {"folder": "/data/out", "separator": ",", "header": True, "overwrite": True}}],
    "late": "late",
    "options": {
        "split": "stateful",
        "parallelism": 2,
        "pre_aggregation": "auto",
        "replicas": 1,
        "buckets": 64,
        "balancers": {"window": "route-key"},
        "message_policy": "poll",
        "windows_per_row_max": 2_000_000,
        "rebalance": "off",
    },
}
assert queries.from_json(FULL)
DOCUMENTS = [*EXAMPLES.values(), FULL, FULL, FULL]
WORKERS = [Worker(f"im-{i}", 0, i, f"ipc:///im-{i}") for i in range(2)]


@given(st.integers(min_value=0))
def test_a_wrong_document_has_a_reason(seed: int) -> None:
    random = Random(seed)
    for _ in range(20):
        document = mutated(random.choice(DOCUMENTS), random)
        try:
            query = queries.from_json(document)
            files = checked_files(query, {}, ("/nowhere",))
            check_references(queries.to_json(query), ())
            planned = plan(query, {}, WORKERS, Topology.one_node([0, 1]), True, files, {})
            assert encode("/plan", physical.to_json(planned)) and explain(planned)
            written = json.loads(json.dumps(queries.to_json(query)))
            assert queries.to_json(queries.from_json(written)) == written
        except CepError as refused:
            assert str(refused).encode()


def changed(path: str, value: Any, document: dict[str, Any]) -> dict[str, Any]:
    made = json.loads(json.dumps(document))
    *steps, last = (int(step) if step.isdecimal() else step for step in path.strip("/").split("/"))
    within = made
    for step in steps:
        within = within[step]
    within[last] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "example"),
    [
        ("/operators/0/type", [], "map"),
        ("/operators/0/window/type", {}, "aggregate, time"),
        ("/operators/0/functions/visits/function", [], "aggregate, time"),
        ("/operators/0/order", 1, "sort"),
        ("/operators/0/on", 5.5, "join"),
    ],
)
def test_a_type_where_none_was_looked_for(path: str, value: Any, example: str) -> None:
    with pytest.raises(QueryError, match="expected"):
        queries.from_json(changed(path, value, EXAMPLES[example]))


@pytest.mark.parametrize("path", ["{data}/\0", "{data}/\0*", "{data}/" + "x" * 5000, "{data}/circle", "{data}/circle/*"])
def test_no_path(tmp_path: Path, path: str) -> None:
    for name in ("circle", "circle.csv"):
        (tmp_path / name).symlink_to(name)
    for within, name in (
        (FULL, "/streams/0/files/paths/0"),
        (FULL, "/outputs/0/files/folder"),
        (EXAMPLES["lookup"], "/operators/0/table/path"),
    ):
        allowed = changed("/outputs/0/files/folder", f"{tmp_path}/out", within) if within is FULL else within
        query = queries.from_json(changed(name, path.format(data=tmp_path) + ".csv" * (within is not FULL), allowed))
        with pytest.raises(QueryError) as caught:
            checked_files(query, {}, (str(tmp_path),))
        assert caught.value.pointer == name


def test_a_table_whose_columns_are_no_utf_8(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_bytes(b"ip,\xff\xfe\na,b\n")
    query = queries.from_json(changed("/operators/0/table/path", f"{tmp_path}/bad.csv", EXAMPLES["lookup"]))
    with pytest.raises(QueryError, match="cannot be read as"):
        checked_files(query, {}, (str(tmp_path),))


def test_a_table_in_csv_is_looked_at_as_it_is_read(tmp_path: Path) -> None:
    """Before, a row over 1 MiB and a line of names alone were refused."""
    names = [field["name"] for field in EXAMPLES["lookup"]["operators"][0]["table"]["schema"]]
    query = queries.from_json(changed("/operators/0/table/path", f"{tmp_path}/t.csv", EXAMPLES["lookup"]))
    for rows in ("", f"\n{'x' * 3_000_000}{',' * (len(names) - 1)}\n"):
        (tmp_path / "t.csv").write_text(",".join(names) + rows)
        checked_files(query, {}, (str(tmp_path),))


def test_a_glob_through_a_link_names_nothing_outside(tmp_path: Path) -> None:
    """Neither a file's name, nor whether there is one."""
    inside, outside = tmp_path / "data", tmp_path / "private"
    for folder in (inside, outside):
        folder.mkdir()
    (outside / "secret").touch()
    (inside / "link").symlink_to(outside)
    (inside / "own").touch()
    messages = set()
    for pattern in ("li*/*", "li*/s*", "li*/none*", "li*/secret", "**/secret"):
        with pytest.raises(QueryError) as caught:
            resolve_paths(TextFiles((f"{inside}/{pattern}",)), (str(inside),))
        messages.add(str(caught.value).replace(pattern, "PATTERN"))
    assert messages == {f"no file matches '{inside}/PATTERN'"}
