"""Removes from an environment what no role uses: tests, headers, parts of Arrow and Spark that are never loaded.

`slim.py FOLDER`; what is left is imported afterwards, so that a build fails rather than a container.
"""

import shutil
import subprocess
import sys
from pathlib import Path

_IMPORTED = "import pyarrow, pyarrow.compute, pyarrow.dataset, pyarrow.parquet, pyarrow.csv, numba, numpy, zmq, kazoo.client, fastapi, rich"

#: Below site-packages.
_UNUSED = (
    "*/tests",
    "numpy/*/tests",
    "numba/cuda",
    "numba/**/tests",
    "pyarrow/include",
    "pyarrow/**/*.pyx",
    "pyarrow/*flight*",
    "pyarrow/*s3*",
    "pyspark/examples",
    "pyspark/pandas/tests",
    "pyspark/jars/kubernetes-*",
    "pyspark/jars/*-osx-*",
    "pyspark/jars/*-windows-*",
    "pyspark/jars/*-riscv64*",
    "pip",
    "pip-*",
    "setuptools",
    "setuptools-*",
    "pkg_resources",
)


def slim(environment: Path) -> None:
    for packages in environment.glob("lib/python*/site-packages"):
        for pattern in _UNUSED:
            for found in list(packages.glob(pattern)):
                _remove(found)


def _remove(found: Path) -> None:
    if found.is_dir() and not found.is_symlink():
        shutil.rmtree(found)
    else:
        found.unlink()


if __name__ == "__main__":
    slim(Path(sys.argv[1]))
    subprocess.run([Path(sys.argv[1]) / "bin" / "python", "-c", _IMPORTED], check=True)
