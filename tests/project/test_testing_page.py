"""The example of docs/testing.md is run as written."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "testing.md").read_text()


def test_the_tests_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((name, code),) = re.findall(r"```python file=(\w+)\.py\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, name, module := importlib.import_module(name))
    tests = [value for key, value in vars(module).items() if key.startswith("test_")]
    assert len(tests) == 6
    for test in tests:
        test()
