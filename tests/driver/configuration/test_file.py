"""The file of a cluster: what is read, and every mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from cep.errors import ClusterError
from driver.configuration.file import read_file


def mistakes(path: Path, text: str) -> list[str]:
    path.write_text(text)
    return [str(each).removeprefix(f"{path}:") for each in read_file(path).mistakes]


def test_values_and_where_they_stand(tmp_path: Path) -> None:
    file = tmp_path / "cep.toml"
    file.write_text('# a comment\nrest_port = 9000\n\ndata = [\n  "/a",  # one\n  "/b:c",\n]\r\nnuma = false\ngrace_s = 12\n')
    read = read_file(file)
    assert read.mistakes == ()
    assert {name: (placed.value, placed.line) for name, placed in read.values.items()} == {
        "rest_port": (9000, 2),
        "data": (("/a", "/b:c"), 4),
        "numa": (False, 8),
        "grace_s": (12.0, 9),
    }


def test_all_mistakes_at_once_each_with_line_what_was_expected_and_what_was_got(tmp_path: Path) -> None:
    text = 'rest_prt = 1\nrest_port = "8765"\nrest_port = 70000\nnuma = 1\n= 3\nlog = "xml"\n'
    text += 'hold_s = nan\nsession_timeout_s = 1\ndata = "/a"\n'
    assert mistakes(tmp_path / "cep.toml", text) == [
        "1: unknown option 'rest_prt' (did you mean 'rest_port'?); `cep config table` lists all",
        "2: rest_port: expected a whole number from 0 to 65,535, got '8765'",
        "3: rest_port: expected a whole number from 0 to 65,535, got 70000",
        "4: numa: expected true or false, got 1",
        "5: expected TOML such as rest_port = 8765; Invalid statement",
        "6: log: expected one of 'text', 'json', got 'xml'",
        "7: hold_s: expected a number from 0 to 86,400 (s), got nan",
        "8: session_timeout_s: expected a number from 2 to 3,600 (s), got 1",
        "9: data: expected a list of texts, got '/a'",
    ]


def test_what_stands_twice_and_tables(tmp_path: Path) -> None:
    assert mistakes(tmp_path / "cep.toml", 'grace_s = 12\ngrace_s = 13\n[rest]\nport = 1\n[[log]]\nzookeeper.host = "a"\n') == [
        "2: grace_s stands in line 1 already",
        "3: unknown table or key 'rest' (did you mean 'rest_port'?); options stand by themselves, without tables",
        "4: unknown option 'port' (did you mean 'rest_port'?); `cep config table` lists all",
        "5: log: expected one of 'text', 'json', got [{}]",
        "6: zookeeper: expected a text, got {'host': 'a'}",
    ]


def test_a_list_without_its_end_is_one_mistake_and_what_follows_is_read(tmp_path: Path) -> None:
    file = tmp_path / "cep.toml"
    [wrong] = mistakes(file, 'data = ["/a",\nrest_port = 9000\n')
    assert wrong.startswith("1: expected TOML such as")
    assert read_file(file).values["rest_port"].value == 9000


def test_a_secret_is_never_shown_and_its_file_is_for_the_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "cep.toml"
    file.write_text('token = "hush"\n')
    file.chmod(0o644)
    [wrong] = read_file(file).mistakes
    assert str(wrong) == f"{file}:1: token is a secret, and other users may read this file: chmod 600 {file}"
    file.chmod(0o600)
    assert read_file(file).values["token"].value == "hush" and not read_file(file).mistakes
    file.write_text("token = 4711\n")
    [wrong] = read_file(file).mistakes
    assert str(wrong) == f"{file}:1: token: expected a text, got ***"


@pytest.mark.parametrize(
    ("content", "what"), [(None, "No such file"), (b"\xff\xfe", "expected UTF-8"), (b"#" * (1 << 20) + b"#", "at most")]
)
def test_what_cannot_be_read_at_all(tmp_path: Path, content: bytes | None, what: str) -> None:
    if content is not None:
        (tmp_path / "cep.toml").write_bytes(content)
    with pytest.raises(ClusterError, match=what):
        read_file(tmp_path / "cep.toml")
