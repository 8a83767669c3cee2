"""A module of users' functions that ends whoever imports it."""

import sys


def never() -> int:
    return 1


sys.exit(5)
