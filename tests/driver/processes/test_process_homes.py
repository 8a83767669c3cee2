"""Folders of clusters: private ones go, or are swept; lasting ones stay, and belong to one cluster at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cep.errors import ClusterError
from driver.processes.process import Home


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="cep-h-") as made:  # short enough for sockets
        yield Path(made)


def test_a_lasting_home_stays_with_what_is_in_it(folder: Path) -> None:
    home = Home.keep(str(folder / "shop/home"))
    (home.folder / "zookeeper").mkdir()
    home.leave(keep=False)
    again = Home.keep(str(folder / "shop/home"))
    assert (again.folder / "zookeeper").is_dir() and again.lasting
    again.leave(keep=False)


def test_two_clusters_do_not_share_one(folder: Path) -> None:
    home = Home.keep(str(folder / "home"))
    with pytest.raises(ClusterError, match=r"a cluster runs in .*/home already"):
        Home.keep(str(folder / "home"))
    home.leave(keep=False)
    Home.keep(str(folder / "home")).leave(keep=False)


def test_no_other_cluster_sweeps_it(folder: Path) -> None:
    """Though it is called as private ones are, and no process has it."""
    Home.keep(str(folder / "cep-12345678")).leave(keep=False)
    Home.make(str(folder)).leave(keep=False)
    assert (folder / "cep-12345678").is_dir()


@pytest.mark.parametrize("name", ["home", "cep-cluster1"])  # the second as private ones are called
def test_reports_of_two_that_are_called_alike_are_apart(folder: Path, name: str) -> None:
    homes = [Home.keep(str(folder / parent / name)) for parent in ("a", "b")]
    reports = [home.make_reports() for home in homes]
    assert reports[0] != reports[1] and all(each.is_dir() for each in reports)
    for home in homes:
        home.leave(keep=False)
    assert not any(each.exists() for each in reports)


def test_a_path_that_is_too_long_for_sockets_is_refused(folder: Path) -> None:
    with pytest.raises(ClusterError, match="too long a path for sockets"):
        Home.keep(str(folder / ("x" * 90)))
