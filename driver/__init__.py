"""The query builder, clusters, publishers and subscriptions; `numa_cep` gives users the same names.

The stub beside this file is the one list of names: type checkers and editors read it, and so does this module, which loads a name
when it is first asked for. The supervisor of a local cluster lives in this package too, and does without them.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from cep.errors import meant

_STUB = Path(__file__).with_suffix(".pyi").read_text()
_HOME = {name: module for module, name in re.findall(r"^from (\S+) import (\w+) as \2$", _STUB, re.MULTILINE)}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{meant(name, __all__)}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
