"""The examples of docs/custom_functions.md are run as written, and print what stands there.

Few rows meet many kernels, which are not compiled.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "custom_functions.md").read_text()


def test_the_shop(tmp_path: Path) -> None:
    for name, code in re.findall(r"```python file=(\S+)\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / name).write_text(code)
    (printed,) = re.findall(r"```\n(\[.*?)```", PAGE, re.DOTALL)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "shop.py"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == printed
