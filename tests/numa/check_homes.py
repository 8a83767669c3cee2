"""Writes a small dataset block by block at the nodes that read it, and prints where the kernel says that its pages are.

`test_guest.py` runs it in a guest with four nodes; on a machine with one it says that all pages are at home.
"""

import json
import sys
import tempfile
from pathlib import Path

from hibench.numa.node_local import here, homes_for, pages_at_home
from hibench.records.dataset import Dataset, Prepared
from hibench.records.file import write_record_file

BLOCK_BYTES = 256 << 10


def main() -> int:
    dataset, topology = Dataset(events=12_000, record_bytes=200, file_events=5_000), here()
    homes = homes_for(dataset, len(topology.cores), topology, BLOCK_BYTES)
    with tempfile.TemporaryDirectory() as folder:
        facts = [write_record_file(dataset, Path(folder), homes, index) for index in range(dataset.files)]
        found = pages_at_home(Prepared(dataset, Path(folder), tuple(facts)), homes)
    print(json.dumps({"readers": homes.readers, "nodes": homes.nodes, "pages": found}))
    return 0 if found["home"] and not found["away"] + found["absent"] else 1


if __name__ == "__main__":
    sys.exit(main())
