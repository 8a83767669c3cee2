"""The masters of Spark that a program may use are those that the operator of its machine has named."""

from __future__ import annotations

import pytest

from cep.errors import ClusterError
from driver.spark.session import MASTERS_VARIABLE, SESSIONS, check_master


def test_any_where_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MASTERS_VARIABLE, raising=False)
    check_master("spark://anywhere:7077")


def test_those_that_are_named_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MASTERS_VARIABLE, "local[2],spark://ours:7077")
    check_master("spark://ours:7077")
    check_master("local[2]")
    for other in ("spark://ours:70777", "local[*]", "spark://ours"):
        with pytest.raises(ClusterError, match=r"is none of those that CEP_SPARK_MASTERS names: local\[2\], spark://ours:7077"):
            SESSIONS.acquire(other)
