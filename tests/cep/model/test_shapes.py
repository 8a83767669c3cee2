"""Documents as frozen dataclasses: what fits is read whole, and what does not is named by its field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import pytest

from cep.errors import ProtocolError
from cep.model.shapes import read_shape


class Place(NamedTuple):
    im: str
    core: int


@dataclass(frozen=True)
class Inner:
    name: str
    share: float = 0.5


@dataclass(frozen=True)
class Whole:
    number: int
    flag: bool
    inner: Inner
    many: tuple[Inner, ...] = ()
    pair: tuple[int, str] = (0, "")
    places: Sequence[Place] = ()
    by_name: Mapping[str, int] = field(default_factory=dict)
    maybe: int | None = None
    any_: Any = None


def test_what_was_written_is_read() -> None:
    whole = Whole(
        1, True, Inner("a", 2), (Inner("b"), Inner("c", 0.25)), (3, "x"), (Place("im-0", 1), Place("im-1", 2)), {"k": -1}, 7, {"x": [1]}
    )
    assert read_shape(Whole, asdict(whole)) == whole


def test_what_may_be_left_out_and_what_a_later_version_has() -> None:
    assert read_shape(Whole, {"number": 1, "flag": False, "inner": {"name": "a", "new": 1}, "newer": []}) == Whole(1, False, Inner("a"))


LEAST = {"number": 1, "flag": True, "inner": {"name": "a"}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"number": True}, "Whole.number: expected a whole number of 64 bits, got True"),
        ({"number": 1.0}, "Whole.number: expected a whole number"),
        ({"number": 1 << 63}, "Whole.number: expected a whole number of 64 bits"),
        ({"flag": 1}, "Whole.flag: expected true or false, got 1"),
        ({"inner": {"name": "\ud800"}}, "Whole.inner.name: expected a text of Unicode"),
        ({"inner": {"name": "a", "share": float("nan")}}, "Whole.inner.share: expected a finite number"),
        ({"inner": []}, "Whole.inner: expected an object"),
        ({"inner": {}}, "Whole.inner: expected a field 'name'"),
        ({"many": [{"name": "a"}, {"name": 3}]}, "Whole.many.1.name: expected a text of Unicode, got 3"),
        ({"many": {"name": "a"}}, "Whole.many: expected a list"),
        ({"pair": [1]}, "Whole.pair: expected a list of 2"),
        ({"places": [["im-0", "1"]]}, "Whole.places.0.1: expected a whole number"),
        ({"by_name": {"k": None}}, "Whole.by_name.k: expected a whole number"),
        ({"maybe": "7"}, "Whole.maybe: expected a whole number"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        read_shape(Whole, LEAST | changes)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize("document", [None, [], "x", 3])
def test_what_is_no_object(document: object) -> None:
    with pytest.raises(ProtocolError, match="Whole: expected an object"):
        read_shape(Whole, document)
