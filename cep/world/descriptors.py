"""How many files and connections this process may have open."""

from __future__ import annotations

import resource

DESCRIPTORS = 65_536


def raise_descriptor_limit() -> int:
    """Lets this process open as many files as it may, up to DESCRIPTORS; answers how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
