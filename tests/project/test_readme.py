"""What the README says is so. In the long mode its example is run as it is where nothing but the wheel is (`test_wheel.py`), too."""

from __future__ import annotations

import re
import textwrap

import pytest

from cep.model.query import from_json
from cep.plan.validate import validate
from cep.service.yaml_documents import load_yaml
from driver import LocalCluster
from tests.support.paths import ROOT

README = ROOT / "README.md"


def example() -> str:
    code, *_ = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    return code


def test_the_query_of_the_example_is_tested_as_it_says() -> None:
    _, snippet, *_ = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert "testing.answers(query" in snippet
    query, _, _ = example().partition("with LocalCluster")
    exec(query + snippet, {})


def test_the_example_answers(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """As it is written, but that the cluster is there: to start one is tested where the wheel is."""
    query, start, block = example().partition("with LocalCluster() as cluster:\n")
    assert start
    exec(query + textwrap.dedent(block), {"cluster": cluster})
    assert "'ip': ['10.0.0.1'], 'visits': [1]" in capsys.readouterr().out


def test_the_document_is_a_query() -> None:
    (document,) = re.findall(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)
    query = from_json(load_yaml(document))
    assert validate(query, {}).schemas["window"].names == ("ip", "visits", "start")


def test_every_folder_of_the_map_is_there() -> None:
    folders = re.findall(r"^\| `(\w+)/`", README.read_text(), re.MULTILINE)
    assert len(folders) >= 6
    for folder in folders:
        assert (README.parent / folder).is_dir(), folder
