"""The README's example is run as written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from cep.model.query import from_json
from cep.plan.validate import validate
from cep.yaml_documents import load_yaml

README = Path(__file__).parent.parent / "README.md"


def example() -> str:
    code, *_ = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    return code


def test_the_example_prints_its_window() -> None:
    ran = subprocess.run([sys.executable, "-c", example()], capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "'ip': ['10.0.0.1'], 'visits': [1]" in ran.stdout


def test_the_document_is_a_query() -> None:
    (document,) = re.findall(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)
    query = from_json(load_yaml(document))
    assert validate(query, {}).schemas["window"].names == ("ip", "visits", "start")


def test_every_folder_of_the_map_is_there() -> None:
    folders = re.findall(r"^\| `(\w+)/`", README.read_text(), re.MULTILINE)
    assert len(folders) >= 6
    for folder in folders:
        assert (README.parent / folder).is_dir(), folder
