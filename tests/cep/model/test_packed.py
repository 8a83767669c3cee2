"""Many counts as one text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.model.packed import packed, unpacked


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_they_come_back(counts: list[int]) -> None:
    assert list(unpacked(packed(np.array(counts, np.int64)))) == counts


@pytest.mark.parametrize("text", ["x", "AAAA", "AAAAAAAAAA=", "é", "AAAAAAAAAAA=AAAA", "AAAA AAAAAAA="])
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        unpacked(text)
