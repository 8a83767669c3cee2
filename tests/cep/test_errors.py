"""What errors say: where, which one, and what was meant."""

from __future__ import annotations

from cep.errors import DataError, QueryError, QueryFailed, StreamEnded, counted, escaped, meant


def test_the_nearest_name_is_meant_if_one_is_near() -> None:
    assert meant("adress", ["name", "address"]) == " (did you mean 'address'?)"
    assert meant("x", ["name", "address"]) == meant(3, ["name"]) == ""


def test_counts() -> None:
    assert [counted(n, "row") for n in (0, 1, 2, 12_345)] == ["0 rows", "1 row", "2 rows", "12,345 rows"]


def test_a_pointer_leads_through_any_name() -> None:
    error = QueryError("no", f"/{escaped('a/b~c')}").under("/operators/0")
    assert (str(error), error.message, error.pointer) == ("no", "no", "/operators/0/a~1b~0c")


def test_rows_that_do_not_fit_are_pointed_at_as_far_as_they_are_known() -> None:
    pointers = [DataError("no", *where).pointer for where in ((), (3,), (3, "a/b"), (None, "a"))]
    assert pointers == ["", "/3", "/3/a~1b", ""]


def test_a_failure_names_where_it_was() -> None:
    assert str(QueryFailed("q", "SQ1", 2, "no room")) == "query 'q' failed in subquery 'SQ1' instance 2: no room"
    assert str(QueryFailed("q", "", None, "no room")) == "query 'q' failed: no room"


def test_a_stream_that_has_ended_says_how_to_read_it() -> None:
    ended = StreamEnded("out", 1)
    assert (ended.stream, ended.rows) == ("out", 1)
    assert str(ended).startswith("stream 'out' has ended after 1 row; ") and str(ended).endswith("start()")
