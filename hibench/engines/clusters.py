"""The cluster that a run has: one of its own, for as long as it lasts; or one that runs already, in containers for example.

Of one's own the processes are metered by the kernel's figures (`hibench.runs.meter`). Those of another may be out of sight: what they use
is what their instance managers report of themselves, at most half a second late; orchestrator and ZooKeeper are not counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cep.config import CA_VARIABLE, TOKEN_VARIABLE
from driver import LocalCluster
from driver.cluster import Cluster
from driver.processes.run_folder import token_or_run_folders
from hibench.runs.meter import ProcessUse

_REPORT_S = 1.5  # instance managers that do something report twice a second


class GivenCluster(Cluster):
    """A cluster that runs already."""

    def processes(self) -> list[tuple[str, int]]:
        """None that could be metered from here."""
        return []

    @property
    def numa(self) -> bool:
        """Are its instance managers bound?"""
        return all(each["binding"]["bound"] for each in self.instance_managers())

    def totals(self) -> dict[str, Mapping[str, Any]]:
        """What each instance manager has used up to now at least, as it says itself; one that does nothing need not say it again."""
        figures = self.figures()
        now, deadline = figures["time"], time.monotonic() + _REPORT_S
        while any(each["reported"] < now for each in figures["managers"]) and time.monotonic() < deadline:
            time.sleep(0.05)
            figures = self.figures()
        return {each["im"]: each for each in figures["managers"]}


def given_cluster(url: str) -> GivenCluster:
    """The one at `url`, of one host or several, with the token and the authority that the environment has for it."""
    return GivenCluster(url, token_or_run_folders(os.environ.get(TOKEN_VARIABLE)), ca=os.environ.get(CA_VARIABLE) or None)


@contextmanager
def cluster_for(url: str | None, instances: int, numa: bool, data: list[Path]) -> Iterator[LocalCluster | GivenCluster]:
    """The one at `url`, with what instance managers it has; or one of our own with so many. Raises ClusterError: it is not to be had."""
    if url is None:
        with LocalCluster(instances=instances, numa=numa, data=data) as own:
            yield own
    else:
        with given_cluster(url) as given:
            yield given


def totals(cluster: Cluster) -> dict[str, Mapping[str, Any]]:
    """What the processes of a given cluster have used up to now; of our own nothing: they are metered."""
    return cluster.totals() if isinstance(cluster, GivenCluster) else {}


def used_since(cluster: Cluster, before: Mapping[str, Mapping[str, Any]]) -> list[ProcessUse]:
    """What they have used since then. Their memory is what they have of it now, with the pages of files and libraries."""
    after = totals(cluster)
    cpu_s = {im: (each["cpu_ns"] - before.get(im, {}).get("cpu_ns", 0)) / 1e9 for im, each in after.items()}
    return [ProcessUse(im, 0, cpu_s[im], int(each["rss_bytes"])) for im, each in after.items()]
