"""Where a client's sockets are, and on which host it says that it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from cep.transport.endpoints import Endpoint
from driver.streams.own_place import OwnPlace, own_place, write_host


@pytest.fixture
def run(tmp_path: Path) -> str:
    return str(tmp_path)


def test_in_a_cluster_of_one_machine_it_is_beside_the_others(run: str) -> None:
    assert own_place("", [run]) == OwnPlace(run, "")
    assert own_place("", ["/nowhere"]) == OwnPlace(None, "")
    assert OwnPlace(run).endpoint(Path("/x/in")) == "ipc:///x/in"


def test_a_folder_that_says_whose_it_is(run: str) -> None:
    write_host(Path(run), "h2")
    assert own_place("h1", ["/nowhere", run]) == OwnPlace(run, "h2")
    assert own_place("h1", [run], "h2") == OwnPlace(run, "h2")
    assert Endpoint.parse(OwnPlace(run, "h2").endpoint(Path("/x/in"))) == Endpoint("/x/in", "h2", "")


def test_a_folder_of_that_name_on_another_host_is_none_of_the_clusters(run: str) -> None:
    """Nothing says whose it is: what was written there by h1 would not be read here."""
    found = own_place("h1", [run])
    assert found.folder is None and found.host.startswith("client-") and Endpoint.parse(found.endpoint(Path("/x/in"))).host == found.host
    assert own_place("h1", [run]).host != found.host, "two machines of one name are two"


def test_what_we_are_told_counts(run: str) -> None:
    write_host(Path(run), "h1")
    assert own_place("h1", [run], "elsewhere") == OwnPlace(None, "elsewhere")
