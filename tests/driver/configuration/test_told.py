"""What a role is told: a flag counts before the environment, that before the file, that before the default.

Tests `told.py`, `commands.py`, `flags.py`, `option.py`, `table.py`.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cep.config import ClusterConfig
from cep.errors import ClusterError
from driver.cli import app
from driver.configuration.file import read_file
from driver.configuration.flags import role_command
from driver.configuration.table import OPTIONS, ROLES, UP, options_of
from driver.configuration.told import Told, resolve, unknown_variables
from driver.processes.supervisor import LocalConfig


def told_of(tmp_path: Path, flags: dict[str, Any], environ: dict[str, str], text: str) -> Told:
    (tmp_path / "cep.toml").write_text(text)
    told, mistakes = resolve(options_of(UP), UP, flags, environ, read_file(tmp_path / "cep.toml"))
    assert mistakes == []
    return told


def test_what_counts_first(tmp_path: Path) -> None:
    said: list[tuple[dict[str, Any], dict[str, str], str]] = [
        ({"rest_port": 1}, {"CEP_REST_PORT": "2"}, "rest_port = 3"),
        ({}, {"CEP_REST_PORT": "2"}, "rest_port = 3"),
        ({}, {"CEP_REST_PORT": ""}, "rest_port = 3"),
        ({}, {}, ""),
    ]
    found = [told_of(tmp_path, *each).values["rest_port"] for each in said]
    sources = ["flag --port", "CEP_REST_PORT", f"{tmp_path / 'cep.toml'}:1", "default"]
    assert [(each.value, each.source) for each in found] == list(zip([1, 2, 3, 8765], sources, strict=True))


def test_texts_of_the_environment(tmp_path: Path) -> None:
    environ = {"CEP_DATA": "/a:/b", "CEP_MODULES": "m, n", "CEP_NUMA": "false", "CEP_SESSION_TIMEOUT": "7.5", "CEP_INSTANCES": "3"}
    told = told_of(tmp_path, {"rest_names": ["a,b", "c"]}, environ, "")
    names = ("data", "modules", "numa", "session_timeout_s", "instances", "rest_names")
    assert [told[name] for name in names] == [("/a", "/b"), ("m", "n"), False, 7.5, 3, ("a", "b", "c")]


def test_a_variable_of_today_counts_before_one_of_yesterday(tmp_path: Path) -> None:
    both = {"CEP_SESSION_TIMEOUT": "7", "CEP_SESSION_TIMEOUT_S": "8"}
    assert told_of(tmp_path, {}, both, "")["session_timeout_s"] == 8


def test_a_default_beside_another_option(tmp_path: Path) -> None:
    """What is asked for is what is used, be it the default of one machine."""
    said: list[tuple[dict[str, Any], str]] = [({}, ""), ({}, 'listen = "127.0.0.1"'), ({"listen": "127.0.0.1"}, "session_timeout_s = 6")]
    found = [told_of(tmp_path, flags, {}, text).values["session_timeout_s"] for flags, text in said]
    expected = [(6.0, "default"), (10.0, "default beside listen"), (6.0, f"{tmp_path / 'cep.toml'}:1")]
    assert [(each.value, each.source) for each in found] == expected


def test_all_mistakes_of_flags_and_environment() -> None:
    _, mistakes = resolve(options_of(UP), UP, {}, {"CEP_REST_PORT": "http", "CEP_NUMA": "perhaps", "CEP_TOKEN": "hush"}, None)
    assert list(map(str, mistakes)) == [
        "CEP_REST_PORT: expected a whole number from 0 to 65,535, got 'http'",
        "CEP_NUMA: expected true or false, got 'perhaps'",
    ]


def test_a_variable_that_is_misspelt_is_told() -> None:
    found = unknown_variables({"CEP_ZOOKEPER": "a", "CEP_RUN": "b", "CEP_CONFIG": "c", "PATH": "d"})
    assert list(map(str, found)) == ["CEP_ZOOKEPER: no option (did you mean 'CEP_ZOOKEEPER'?)"]


# --- the table -------------------------------------------------------------------------------------------------------


def test_names_are_the_same_everywhere() -> None:
    names = [name for option in OPTIONS for name in (option.name, *option.variables)]
    assert len(names) == len(set(names))
    assert all(option.variable == f"CEP_{option.name.upper()}" for option in OPTIONS)
    for role in ROLES:
        flags = [option.flag(role) for option in options_of(role)]
        assert len(flags) == len(set(flags)), role
    assert {role for option in OPTIONS for role in option.roles} == set(ROLES)


def test_units_stand_last() -> None:
    assert {option.name for option in OPTIONS if option.unit == "s" and not option.name.endswith("_s")} == set()
    assert {option.name for option in OPTIONS if option.unit == "bytes" and "_bytes" not in option.name} == set()


@pytest.mark.parametrize("kind", [ClusterConfig, LocalConfig])
def test_a_default_is_that_of_the_code(kind: type) -> None:
    defaults = {each.name: each.default for each in fields(kind)}
    # port 0, any, is for programs; an orchestrator is always told. The session time-out of a program's cluster depends on its address
    others = {"rest_port", "console_port"} | ({"session_timeout_s"} if kind is LocalConfig else set())
    known = {option.field_name: option.default for option in OPTIONS if option.field_name in defaults and option.name not in others}
    told = {name: value for name, value in known.items() if kind is LocalConfig or name not in ("zookeeper", "rest_host", "token")}
    assert told == {name: defaults[name] for name in told}


def test_what_a_local_cluster_is_told_it_knows() -> None:
    known = {each.name for each in fields(LocalConfig)}
    assert {option.field_name for option in options_of(UP)} - known == {"uids"}  # which is in the environment


# --- commands --------------------------------------------------------------------------------------------------------


def run(*words: str, **environ: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(words), env=environ)
    if isinstance(done.exception, ClusterError):
        return 1, done.stdout, str(done.exception)
    return done.exit_code, done.stdout, done.stderr


def test_check(tmp_path: Path) -> None:
    file = tmp_path / "cep.toml"
    file.write_text("rest_port = 1\ngrace_s = 20\n")
    assert run("config", "check", str(file)) == (0, f"{file}: 2 options, all well\n", "")
    file.write_text('rest_port = "a"\nlok = "json"\n')
    code, _, said = run("config", "check", str(file))
    assert code == 1 and [line.removeprefix(f"{file}:")[:2] for line in said.splitlines()] == ["1:", "2:"]


def test_show_says_where_each_value_comes_from_and_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "cep.toml"
    file.write_text('grace_s = 20\ntoken = "hush-hush"\n')
    file.chmod(0o600)
    code, said, _ = run("config", "show", "--json", CEP_CONFIG=str(file), CEP_REST_PORT="9000")
    found = {each["name"]: (each["value"], each["source"]) for each in json.loads(said)}
    assert code == 0 and "hush" not in said
    assert found["grace_s"] == (20.0, f"{file}:1") and found["token"] == ("***", f"{file}:2")
    assert found["rest_port"] == (9000, "CEP_REST_PORT") and found["log"] == ("text", "default")
    code, said, _ = run("config", "show", "--role", "metric-server", CEP_CONFIG=str(file))
    assert code == 0 and "rest_port" not in said and "log" in said and "hush" not in said
    code, _, said = run("config", "show", "--role", "metrics-server")
    assert code == 1 and "did you mean 'metric-server'" in said


def test_a_role_is_told_by_all_of_them(tmp_path: Path) -> None:
    found: list[Told] = []
    small = typer.Typer()
    small.command()(role_command(UP, found.append))
    file = tmp_path / "cep.toml"
    file.write_text('rest_port = 1\ngrace_s = 20\nlog = "json"\n')
    done = CliRunner().invoke(
        small, ["--config", str(file), "--port", "0", "--no-numa", "--data", "/a", "--data", "/b:/c"], env={"CEP_GRACE_S": "30"}
    )
    assert done.exit_code == 0, done.exception
    told = found[0].fields_of(LocalConfig)
    assert [told[name] for name in ("rest_port", "numa", "data", "grace_s", "log")] == [0, False, ("/a", "/b", "/c"), 30.0, "json"]
    file.write_text("rest_port = -1\ngrace = 20\n")
    done = CliRunner().invoke(small, ["--config", str(file)], env={"CEP_NUMA": "2"})
    assert isinstance(done.exception, ClusterError) and len(str(done.exception).splitlines()) == 3


def test_clients_find_their_cluster_by_the_file(tmp_path: Path) -> None:
    file = tmp_path / "cep.toml"
    file.write_text('url = "from-the-file:9"\ntoken = "t"\n')  # no scheme: refused at once, where an address is waited for
    file.chmod(0o600)
    code, _, said = run("--config", str(file), "metrics")
    assert code == 1 and "from-the-file:9" in said
    code, _, said = run("--config", str(file), "metrics", "--url", "from-a-flag:10")
    assert code == 1 and "from-a-flag:10" in said
