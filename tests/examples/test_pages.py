"""Each example has a page, whose code is that of the example and its test, and which shows what the example prints."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys

import pytest

from numa_cep import testing
from tests.support.paths import ROOT

NAMES = sorted(path.stem for path in (ROOT / "examples").glob("[!_]*.py"))


def blocks(name: str, language: str) -> list[str]:
    """What stands on the page between fences; what is printed has no language."""
    page = (ROOT / "docs" / "examples" / f"{name}.md").read_text()
    return [text for word, text in re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE) if word == language]


def test_the_readme_names_all_pages() -> None:
    linked = re.findall(r"\]\(docs/examples/(\w+)\.md\)", (ROOT / "README.md").read_text())
    assert sorted(linked) == NAMES == sorted(path.stem for path in (ROOT / "docs" / "examples").glob("*.md"))


@pytest.mark.parametrize("name", NAMES)
def test_the_code_of_the_page_is_that_of_the_example_and_its_test(name: str) -> None:
    code = blocks(name, "python")
    assert any("Query(" in block for block in code)
    sources = [(ROOT / file).read_text() for file in (f"examples/{name}.py", f"tests/examples/test_{name}.py")]
    assert [block for block in code if not any(block in source for source in sources)] == []


@pytest.mark.parametrize("name", NAMES)
def test_what_the_page_shows(name: str) -> None:
    example = importlib.import_module(f"examples.{name}")
    assert example.report(**testing.answers(example.query(), example.made_up())) + "\n" == "".join(blocks(name, ""))


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_it_prints_that_when_it_runs_on_a_cluster(name: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, f"examples/{name}.py"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=ROOT, env=environment)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("".join(blocks(name, "")), "", 0)
