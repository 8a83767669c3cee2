"""One list of names: the stub of `driver`, from which `driver` and `numa_cep` load them."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import Any

import pytest

import driver
import numa_cep
from tests.support.paths import ROOT


def test_every_line_of_the_stub_is_a_name() -> None:
    """What type checkers see is what there is."""
    tree = ast.parse((ROOT / "driver/__init__.pyi").read_text())
    listed = {a.asname: n.module for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names if a.name == a.asname}
    assert len(listed) == sum(isinstance(n, ast.ImportFrom) for n in tree.body)
    assert listed == driver._HOME


def test_both_packages_have_them() -> None:
    assert set(dir(numa_cep)) >= set(numa_cep.__all__) == set(driver.__all__)
    for name in numa_cep.__all__:
        assert getattr(numa_cep, name) is getattr(driver, name)


def test_what_is_no_name() -> None:
    with pytest.raises(AttributeError, match="'numa_cep' has no attribute 'windows'"):
        numa_cep.windows  # type: ignore[attr-defined]  # it is not there  # noqa: B018
    with pytest.raises(AttributeError, match="'driver' has no attribute 'windows'"):
        driver.windows  # type: ignore[attr-defined]  # it is not there  # noqa: B018


@pytest.mark.parametrize("module", [driver, numa_cep])
def test_a_name_misspelt(module: Any) -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'summ' \(did you mean 'sum_'\?\)"):
        module.summ  # noqa: B018


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    loaded = "import sys, numa_cep; print([m for m in ('numpy', 'pyarrow', 'numba', 'driver.local') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", loaded], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
