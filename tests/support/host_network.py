"""Three hosts in network namespaces, for the long mode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.faults.namespaces import HostNetwork, NoNamespaces, network


@pytest.fixture(scope="module")
def net(request: pytest.FixtureRequest) -> Iterator[HostNetwork]:
    """The module says in `NETWORK` how names of what it makes begin, so that two runs do not collide."""
    try:
        with network(request.module.NETWORK, 3) as made:
            yield made
    except NoNamespaces as error:
        pytest.skip(f"no network namespaces: {error}")
