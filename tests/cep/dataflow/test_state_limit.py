"""The state of a query is bounded by the cluster, and by the query itself where that is less."""

from __future__ import annotations

import pytest

from cep.errors import QueryError
from driver import Query
from tests.support.visits import windows


def test_options() -> None:
    query: Query = windows("q").options(state_bytes_max=1 << 20)
    assert query.build().options.state_bytes_max == 1 << 20
    assert windows("q").build().options.state_bytes_max is None
    for odd in (0, -1, 1.5, True, "1", 1 << 41):
        with pytest.raises(QueryError, match="state_bytes_max: expected"):
            windows("q").options(state_bytes_max=odd)
