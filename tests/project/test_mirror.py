"""The test of a file is found by its name (CONTRIBUTING.md): it mirrors the file's path, or a docstring names the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PACKAGES = (
    "cep",
    "orchestrator",
    "instance_manager",
    "driver",
    "console",
    "hibench",
    "numa_cep",
    "connectors",
    "simulation",
    "docker",
    "benchmarks",
)
#: A file of no more lines may do without.
SMALL_LINES = 60
DOCSTRING = re.compile(r'r?"""(.*?)"""', re.DOTALL)
#: The last paragraph of a docstring that names files.
NAMES = re.compile(r"Tests (`[^`]+`(?:,\s+`[^`]+`)*)\.")

#: A file without a test -> why.
WITHOUT: dict[str, str] = {}


def sources() -> Iterator[Path]:
    """Paths below the root."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.name != "__init__.py":
                yield path.relative_to(ROOT)


def files_of_tests() -> Iterator[Path]:
    """Paths below `tests`."""
    return (path.relative_to(ROOT / "tests") for path in sorted((ROOT / "tests").rglob("test_*.py")))


def named(test: Path) -> Iterator[tuple[str, Path]]:
    """The names in the docstring of a test, and the files that they are of: of its own folder, or from the root."""
    found = DOCSTRING.match((ROOT / "tests" / test).read_text())
    last = found[1].rstrip().rpartition("\n\n")[2] if found else ""
    if last.startswith("Tests `"):
        names = NAMES.fullmatch(last)
        assert names, f"tests/{test}: expected 'Tests `reading.py`, `spans.py`.' and nothing behind it, got {last!r}"
        for name in re.findall(r"`([^`]+)`", names[1]):
            mirrored = test.parent / name
            yield name, mirrored if (ROOT / mirrored).is_file() else Path(name)


@pytest.fixture(scope="module")
def names() -> dict[Path, list[tuple[str, Path]]]:
    return {test: list(named(test)) for test in files_of_tests()}


def is_mirrored(source: Path) -> bool:
    """`test_c_core.py` is no test of `c.py` where there is a `c_core.py`."""
    folder, own = ROOT / "tests" / source.parent, ROOT / source.parent
    stories = (test.stem.removeprefix("test_") for test in folder.glob(f"test_{source.stem}_*.py"))
    return (folder / f"test_{source.stem}.py").is_file() or any(not (own / f"{story}.py").is_file() for story in stories)


def test_every_file_has_a_test_that_is_found_by_its_name(names: dict[Path, list[tuple[str, Path]]]) -> None:
    by_docstring = {path for each in names.values() for _, path in each}
    without = {
        str(source)
        for source in sources()
        if len((ROOT / source).read_text().splitlines()) > SMALL_LINES and not is_mirrored(source) and source not in by_docstring
    }
    assert without - WITHOUT.keys() == set(), "no test is called after these, and no docstring of one names them"
    assert WITHOUT.keys() - without == set(), "these have tests by now: take them out of the table"


def test_every_name_in_a_docstring_is_that_of_a_file(names: dict[Path, list[tuple[str, Path]]]) -> None:
    assert [f"tests/{test}: {name}" for test, each in names.items() for name, path in each if not (ROOT / path).is_file()] == []


def test_a_file_is_named_once_in_a_docstring(names: dict[Path, list[tuple[str, Path]]]) -> None:
    assert {str(test): [name for name, _ in each] for test, each in names.items() if len(dict(each)) < len(each)} == {}
