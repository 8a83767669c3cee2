"""One list of names: the stub of `driver`, from which `driver` and `numa_cep` load them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from itertools import takewhile
from types import FunctionType, ModuleType
from typing import Any

import pytest

import driver
import numa_cep
from cep.model import expr_functions, functions, windows
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


def documented(page: str, heading: str) -> list[str]:
    """The names in the first column of the table below the line that begins with `heading`."""
    lines = iter((ROOT / "docs" / page).read_text().splitlines())
    next(line for line in lines if line.startswith(heading))
    rows = takewhile(lambda line: line.startswith("|"), lines)
    cells = [row.split("|")[1] for row in rows if not row.startswith("|---")]
    called = [name for cell in cells for name in re.findall(r"`(\w+)\(", cell)]
    return called or [name for cell in cells for name in re.findall(r"\w+", cell) if name != "function"]


@pytest.mark.parametrize("page", ["functions.md", "arithmetic.md"])
def test_every_function_of_the_documents_can_be_written(page: str) -> None:
    """By its name, with an underscore behind it where Python has one of that name; or as a method of an expression."""
    names = documented(page, "| function |")
    assert len(names) > 20 and {"functions.md": "approx_count_distinct", "arithmetic.md": "parse_time"}[page] in names
    written = {*numa_cep.__all__, *(dir(numa_cep.col("x")) if page == "arithmetic.md" else ())}
    assert [name for name in names if not {name, f"{name}_"} & written] == []


@pytest.mark.parametrize("module", [expr_functions, functions, windows])
def test_every_function_that_programs_call_is_exported(module: ModuleType) -> None:
    made = {"Expr", "When", "Function", *(f"{kind}Window" for kind in ("Time", "Cumulate", "Size", "Session", "Transaction", "Trailing"))}
    there = [name for name, found in vars(module).items() if isinstance(found, FunctionType) and found.__module__ == module.__name__]
    returned = {name: set(re.findall(r"\w+", str(vars(module)[name].__annotations__.get("return")))) for name in there}
    public = [name for name in there if returned[name] & made and name[0] != "_" and "json" not in name]
    assert len(public) > 5 and [name for name in public if name not in numa_cep.__all__] == []


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
