"""The file of tokens: changed while it is read, by several at once, by others, badly."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cep.errors import ClusterError, Conflict, NotFound
from cep.secret import Secret
from cep.service.access import DEPLOY, EVERYBODY, READ, TOKENS_MAX, new_token
from cep.service.token_file import Tokens, add_token, read_tokens, remove_token

DAY = "2026-11-24"


def test_a_change_counts_from_the_next_look(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    tokens = Tokens(Secret("own"), file)
    assert tokens.access("own") is not None and tokens.access("x") is None and tokens.access(None) is None
    first = add_token(file, "first", [READ], DAY)
    access = tokens.access(first.text)
    assert access is not None and (access.name, access.roles) == ("first", (READ,))
    second = add_token(file, "second", [DEPLOY], DAY)
    remove_token(file, "first")
    assert tokens.access(first.text) is None and tokens.access(second.text) is not None and tokens.access("own") is not None
    file.unlink()
    assert tokens.access(second.text) is None and tokens.access("own") is not None


def test_the_file_is_its_owners_alone_and_has_no_token(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    made = add_token(file, "a", [READ], DAY)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and made.text not in file.read_text()
    assert [token.name for token in read_tokens(file)] == ["a"]


def test_what_cannot_be_read_changes_nothing_and_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "tokens"
    made = add_token(file, "a", [READ], DAY)
    tokens = Tokens(None, file)
    file.write_text(f"{made.text}\n")  # pasted into the file, as one does
    for _ in range(3):
        assert tokens.access(made.text) is not None
    [told] = caplog.records
    assert "tokens, line 1: no JSON" in told.getMessage() and made.text not in caplog.text
    with pytest.raises(ClusterError, match="line 1: no JSON"):
        Tokens(None, file)


def test_a_file_that_others_may_write_does_not_count(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    add_token(file, "a", [READ], DAY)
    file.chmod(0o660)
    with pytest.raises(ClusterError, match=r"other users may write it.*chmod 600"):
        Tokens(None, file)


def test_without_tokens_everybody_may_do_everything(tmp_path: Path) -> None:
    assert Tokens(None).access(None) == EVERYBODY == Tokens(None).access("anything")
    assert Tokens(None, tmp_path / "none").access(None) is None  # a file that has none yet is no open door


def test_names_are_had_once(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    add_token(file, "a", [READ], DAY)
    with pytest.raises(Conflict, match="a token 'a' already"):
        add_token(file, "a", [DEPLOY], DAY)
    with pytest.raises(Conflict, match="'cluster' is the name"):
        add_token(file, "cluster", [DEPLOY], DAY)
    with pytest.raises(NotFound, match=r"no token 'b'.*there are a"):
        remove_token(file, "b")
    file.write_text(file.read_text() * 2)
    with pytest.raises(ClusterError, match="two tokens are called 'a'"):
        read_tokens(file)


def test_of_those_who_add_at_once_none_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    with ThreadPoolExecutor(8) as many:
        made = list(many.map(lambda i: add_token(file, f"t{i}", [READ], DAY), range(24)))
    tokens = Tokens(None, file)
    assert {access.name for each in made if (access := tokens.access(each.text))} == {f"t{i}" for i in range(24)}


def test_tokens_have_a_bound(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    lines = [json.dumps(new_token(f"t{i}", [READ], DAY)[1].to_json()) for i in range(TOKENS_MAX)]
    file.write_text("\n".join(lines))
    file.chmod(0o600)
    with pytest.raises(ClusterError, match="1,001 tokens, expected at most 1,000"):
        add_token(file, "more", [READ], DAY)
    assert len(read_tokens(file)) == TOKENS_MAX


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="No such file or directory"):
        add_token(tmp_path / "none" / "tokens", "a", [READ], DAY)
    assert os.listdir(tmp_path) == []
