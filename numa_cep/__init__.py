"""What users import: `from numa_cep import Query, stream, LocalCluster, ...`.

The names are those of `driver`, whose stub lists them; each is loaded when it is first asked for.
"""

from typing import Any

import driver
from cep.errors import meant
from driver import __all__ as __all__


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{meant(name, __all__)}")
    return getattr(driver, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
