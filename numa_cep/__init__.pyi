"""What type checkers and editors see of `numa_cep`: the names of `driver`."""

from driver import *  # noqa: F403  # all of them
