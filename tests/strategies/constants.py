"""What Hypothesis draws must not depend on which modules are loaded, where an example is to come again.

It draws one value in twenty from constants that it reads out of our own modules, as far as they are loaded by then. So the same seed gave
another query in a whole run than in that of one file, and after every edit of a constant. Where examples are sought anew that helps, and
stays; where they are to be the same, it is off.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from hypothesis.strategies import SearchStrategy

#: Hypothesis has no option for it. Were this name gone, importing this module would say so.
AS_SHIPPED = providers._get_local_constants


def _none() -> Constants:
    return Constants()


def forget_ours() -> None:
    """From here on, no example of this process draws from the constants of our modules."""
    providers._get_local_constants = _none
    providers.CONSTANTS_CACHE.cache.clear()


@contextmanager
def without_ours() -> Iterator[None]:
    """The same for what is drawn in the block."""
    before = providers._get_local_constants
    forget_ours()
    try:
        yield
    finally:
        providers._get_local_constants = before
        providers.CONSTANTS_CACHE.cache.clear()


def trust_strategies() -> None:
    """From here on, this process does not look through the arguments of each strategy that it draws from. Ours are made anew for every
    example, so that it takes a quarter of the time of drawing, and changes none. Where examples are sought anew they are looked through."""
    SearchStrategy.validate = _trust  # type: ignore[method-assign]


def _trust(strategy: SearchStrategy[object]) -> None:
    """In the place of what raises InvalidArgument."""
