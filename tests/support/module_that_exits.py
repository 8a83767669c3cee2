"""A module of users' functions that ends the process that imports it."""

import sys


def never() -> int:
    return 1


sys.exit(5)
