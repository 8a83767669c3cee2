"""Installs this project into `.venv` beside this file, once per version of `pyproject.toml`, and runs a command there.

Its modules are compiled to bytecode first, as pip does with what it installs, but not with a project that is installed
editable: a process of a cluster imports a hundred of them, and where PYTHONDONTWRITEBYTECODE is set each compiles them again.

    python3 bootstrap.py hibench run fixed-window
    python3 bootstrap.py pytest

A command runs in the folder of its caller, whose paths it is given: `python my.py`, `cep deploy query.json`. Those that work on this
project itself (`pytest`, `ruff`, `mypy`, `python -m benchmarks`, `python -m simulation`) run in the folder of this file, wherever they
are called: there they find their settings and what is not installed.

It needs nothing but Python 3.11 or newer on Linux, and a package index that pip can reach.
"""

from __future__ import annotations

import compileall
import fcntl
import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
HOME = ROOT / ".venv"
STAMP = HOME / "installed"
OF_THE_PROJECT = (("pytest",), ("ruff",), ("mypy",), ("python", "-m", "benchmarks"), ("python", "-m", "simulation"))
PACKAGES = ("cep", "orchestrator", "instance_manager", "driver", "numa_cep", "hibench", "simulation", "benchmarks", "examples", "tests")


def main() -> None:
    if sys.version_info < (3, 11) or sys.platform != "linux":
        sys.exit(f"bootstrap: expected Python 3.11 or newer on Linux, got {sys.version.split()[0]} on {sys.platform}")
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    install()
    for package in PACKAGES:
        compileall.compile_dir(ROOT / package, quiet=2)  # what cannot be written is compiled again when it is imported
    bin_folder = HOME / "bin"
    os.environ["PATH"] = f"{bin_folder}{os.pathsep}{os.environ.get('PATH', '')}"
    program = bin_folder / sys.argv[1]
    if not program.exists():
        sys.exit(f"bootstrap: no command {sys.argv[1]!r} in {bin_folder}; there are hibench, cep, pytest, python, ruff, mypy")
    if any(tuple(sys.argv[1 : 1 + len(command)]) == command for command in OF_THE_PROJECT):
        os.chdir(ROOT)
    os.execv(program, [str(program), *sys.argv[2:]])


def install() -> None:
    """Does nothing when `.venv` holds what this `pyproject.toml` asks for. Two at once: the second waits."""
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + sys.version.encode()).hexdigest()
    HOME.mkdir(exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if STAMP.exists() and STAMP.read_text() == wanted:
            return
        print("bootstrap: installing into .venv (once; about 2 GB with Spark, Java and what the tests need)", file=sys.stderr, flush=True)
        STAMP.unlink(missing_ok=True)  # what fails half-way leaves neither what was there nor what is wanted
        venv.EnvBuilder(with_pip=True, symlinks=True).create(HOME)
        pip = [str(HOME / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--editable", f"{ROOT}[test]"], check=True)
        STAMP.write_text(wanted)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"bootstrap: pip ended with status {error.returncode}; see above")
    except ModuleNotFoundError as error:
        sys.exit(f"bootstrap: this Python lacks {error.name!r}; on Debian: apt install python3-venv")
