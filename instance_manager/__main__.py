"""`python -m instance_manager '<config>'`: binds itself to its core and node, and only then imports anything that touches memory.

`python -m instance_manager '<config>' HANDLE` is one of which instance managers of that node are copies (`instance_manager.copying`).
"""

import gc
import json
import os
import sys

from cep.config import ClusterConfig, InstanceManagerConfig
from cep.numa import Binding, bind, verify
from instance_manager.copying import copy_on_request


def environment(cluster: ClusterConfig) -> dict[str, str]:
    """What is read where kernels are declared, which is at import: so it is set before that."""
    found = {"CEP_STOCK_NUMBA": "1"} if cluster.stock_numba else {}
    return found if cluster.kernel_cache is None else found | {"CEP_KERNEL_CACHE": cluster.kernel_cache}


def bound(config: InstanceManagerConfig) -> Binding:
    wanted = config.core is not None or config.node is not None
    return bind(config.core, config.node) if wanted else verify()


def main() -> int:
    config = InstanceManagerConfig.from_json(json.loads(sys.argv[1]))
    binding = bound(config)
    os.environ |= environment(config.cluster)
    gc.disable()  # nothing of what is imported is garbage: looking for some takes a sixth of the time until it is ready
    # After the binding, by intention: pages stay on the node where they were first touched (rule 7.1).
    from instance_manager.service import load, serve

    load()
    if len(sys.argv) > 2:
        gc.freeze()  # so that a copy's look for garbage writes to none of the pages that it shares
        request = copy_on_request(int(sys.argv[2]))
        if request is None:
            return 0
        config = InstanceManagerConfig.from_json(request["config"])
        binding = bound(config)
    return serve(config, binding)


if __name__ == "__main__":
    sys.exit(main())
