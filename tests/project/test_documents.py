"""The documents hold together: links lead somewhere, cited rules stand in docs/rules.md, and nothing cites what is not here."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from orchestrator.state.life_cycle import mermaid
from tests.support.paths import ROOT

RULES = ROOT / "docs" / "rules.md"

#: Files that are text and ours.
TEXTS = (".py", ".pyi", ".md", ".toml", ".yaml", ".yml", ".c", ".sh", ".j2")

RULE = re.compile(r"\brules?:? ((?:\d+\.\d+(?:, | and )?)+)", re.IGNORECASE)
PAGE = re.compile(r"[\w./-]+\.md\b")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@cache
def texts() -> dict[str, str]:
    """Path within the repository -> what is in it, of every file that git knows and that is there."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return {name: (ROOT / name).read_text() for name in listed if name.endswith(TEXTS) and (ROOT / name).is_file()}


def pages() -> list[str]:
    return [name for name in texts() if name.endswith(".md")]


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page: str) -> None:
    text = re.sub(r"```.*?```", "", texts()[page], flags=re.DOTALL)
    inside = [link for link in LINK.findall(text) if not re.match(r"\w+:", link)]
    assert [link for link in inside if not (ROOT / page).parent.joinpath(link).exists()] == []


def test_cited_rules_exist() -> None:
    rules = set(re.findall(r"^\*\*(\d+\.\d+) ", RULES.read_text(), re.MULTILINE))
    assert len(rules) > 30
    missing = [
        (name, number)
        for name, text in texts().items()
        for found in RULE.findall(text)
        for number in re.findall(r"\d+\.\d+", found)
        if number not in rules
    ]
    assert missing == []


def test_named_pages_exist() -> None:
    """A page that code or a page names is in the repository, from its root or from beside the page that names it."""
    missing = [
        (name, page)
        for name, text in texts().items()
        for page in set(PAGE.findall(text))
        if "/" in page and not (ROOT / page).exists() and not (ROOT / name).parent.joinpath(page).exists()
    ]
    assert missing == []


def test_nothing_cites_what_is_elsewhere() -> None:
    cited = re.compile(r"\b(?:DESIGN|INFRA|NOTHING_LOST|STYLE)(?:\.md|'s|,? §|,? \d)|\bshared/\w+\.")
    here = str(Path(__file__).relative_to(ROOT))
    assert [(name, found) for name, text in texts().items() if name != here for found in cited.findall(text)] == []


def test_pages_have_small_letters() -> None:
    assert [path.name for path in (ROOT / "docs").rglob("*.md") if path.name != path.name.lower()] == []


ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()

#: The glossary: noun -> the file that defines it.
NOUNS = dict(re.findall(r"^\| (\w+) \| `([\w./]+)` \|", ARCHITECTURE, re.MULTILINE))


def test_the_architecture_is_read_in_one_sitting() -> None:
    assert len(ARCHITECTURE.encode()) <= 12 * 1024


def test_the_glossary_is_of_the_code() -> None:
    """Each noun is a name of the file that it stands beside; one that code has no name for is in the rules."""
    assert 25 <= len(NOUNS) <= 40
    defines = r"^(?:class {0}\b|{0} = |{0}: )"
    missing = [
        (noun, file)
        for noun, file in NOUNS.items()
        if not re.search(r"(?i)\b" + noun if file.endswith(".md") else defines.format(noun), (ROOT / file).read_text(), re.MULTILINE)
    ]
    assert missing == []


def test_named_files_exist() -> None:
    """A file or a folder that a page of the architecture names by its path is there."""
    named = [
        (page, path)
        for page in ("ARCHITECTURE.md", "docs/hibench.md", *(name for name in texts() if name.startswith("docs/features/")))
        for path in re.findall(
            r"`((?:cep|driver|hibench|instance_manager|orchestrator|numa_cep|simulation|tests|benchmarks)/[\w./-]*)`", texts()[page]
        )
        if not (ROOT / path).exists()
    ]
    assert named == []


def test_the_life_of_a_query_is_drawn_from_its_table() -> None:
    assert mermaid().strip() in texts()["docs/features/control.md"]
