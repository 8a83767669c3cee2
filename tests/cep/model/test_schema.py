"""Types of fields, as they are written and read."""

from __future__ import annotations

import pytest

from cep.errors import QueryError
from cep.model.functions import max_, result_field
from cep.model.schema import STRING, Field, Schema, list_of, parse_type
from cep.model.streams import Stream, TextFiles


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("list<string>", ("list<string>", False)),
        ("list<timestamp[ms]>?", ("list<timestamp[ms]>", True)),
        (list[str], ("list<string>", False)),
        (list[float] | None, ("list<float64>", True)),
    ],
)
def test_types_of_lists(given: object, wanted: tuple[str, bool]) -> None:
    type_, nullable = parse_type(given)
    assert (str(type_), nullable) == wanted
    schema = Schema((Field("a", type_, nullable),))
    assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize("given", ["list<list<int64>>", "list", "list<>", "list<string?>", list, list[list[int]], list[dict]])
def test_what_is_no_type_of_lists(given: object) -> None:
    with pytest.raises(QueryError, match=r"unknown type .*or list<one of them>"):
        parse_type(given)


def test_where_lists_have_no_meaning() -> None:
    lists_ = Schema.of({"a": "list<int64>"})
    with pytest.raises(QueryError, match=r"field a: list<int64>: files of text hold no lists"):
        Stream("s", lists_, files=TextFiles(("x",)))
    with pytest.raises(QueryError, match=r"max\(a\): lists are not comparable, got list<int64>"):
        result_field("x", max_("a"), lists_["a"])
    with pytest.raises(QueryError, match="elements that are no lists"):
        list_of(list_of(STRING))
