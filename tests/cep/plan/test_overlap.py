"""Windows of which very many overlap: refused by name, with the number, unless an option allows them."""

from __future__ import annotations

import pytest

from cep.errors import QueryError
from cep.model import query as queries
from cep.plan.validate import validate
from driver import SIZE, TIME, Query, count, stream

S = stream("s", t="timestamp[us]", k=int, event_time="t", disorder="0s")
R = stream("r", t="timestamp[us]", k=int, event_time="t", disorder="0s")
WIDE = TIME("3650d", "1ms")
COUNT = "315,360,000,000"

QUERIES: dict[str, tuple[Query, str, str]] = {
    "time": (Query("q").source(S).aggregate("o", WIDE, n=count()), COUNT, "window"),
    "size": (Query("q").source(S).aggregate("o", SIZE(1_048_576, 1), n=count()), "1,048,576", "window"),
    "sort": (Query("q").source(S).sort("o", WIDE, order="k"), COUNT, "window"),
    "top": (Query("q").source(S).top("o", 3, WIDE, order="k"), COUNT, "window"),
    "join": (Query("q").source(S).join("o", R, WIDE, on="k", prefix="r_"), COUNT, "window"),
    "right": (Query("q").source(S).join("o", R, TIME("1ms"), right_window=WIDE, on="k", prefix="r_"), COUNT, "right_window"),
    "one too many": (Query("q").source(S).aggregate("o", TIME("1000001us", "1us"), n=count()), "1,000,001", "window"),
}


@pytest.mark.parametrize("kind", QUERIES)
def test_too_many_windows_are_refused_by_every_door(kind: str) -> None:
    query, number, key = QUERIES[kind]
    query = query.output("out")
    message = f"operator 'o': a row lies in {number} windows .*expected at most 1,000,000.*windows_per_row_max"
    with pytest.raises(QueryError, match=message):
        query.build()
    with pytest.raises(QueryError, match=message) as caught:  # as REST does with a document
        validate(queries.from_json(query.to_json()), {})
    assert caught.value.pointer == f"/operators/0/{key}"
    assert query.options(windows_per_row_max=2**40).build()


def test_as_many_as_allowed() -> None:
    query = Query("q").source(S).aggregate("o", TIME("1s", "1us"), n=count()).output("out")
    assert query.build()
    with pytest.raises(QueryError, match=r"a row lies in 1,000,000 windows .*at most 999,999"):
        query.options(windows_per_row_max=999_999).build()
    with pytest.raises(QueryError, match="windows_per_row_max: expected a whole number of at least 1"):
        query.options(windows_per_row_max=0)
