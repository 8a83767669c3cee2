"""`python -m instance_manager '<config>'`: binds itself to its core and node, and only then imports anything that touches memory."""

import json
import sys

from cep.config import InstanceManagerConfig
from cep.numa import bind, verify


def main() -> int:
    config = InstanceManagerConfig.from_json(json.loads(sys.argv[1]))
    bound = config.core is not None or config.node is not None
    binding = bind(config.core, config.node) if bound else verify()
    # After the binding, by intention: pages stay on the node where they were first touched (DESIGN 7).
    from instance_manager.service import serve

    return serve(config, binding)


if __name__ == "__main__":
    sys.exit(main())
