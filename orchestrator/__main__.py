"""`python -m orchestrator '<config>'`; what it does is `orchestrator.rest_process`."""

import gc
import sys


def main() -> int:
    gc.disable()  # nothing of what is imported is garbage: looking for some takes a sixth of the time until it is ready
    from orchestrator.rest_process import main as run

    gc.freeze()
    gc.enable()
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
