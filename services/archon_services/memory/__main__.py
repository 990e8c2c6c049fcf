"""`python -m archon_services.memory`: runs the shared memory as a process until SIGTERM or SIGINT."""

import sys

from archon_services.common.process import run
from archon_services.common.settings import load_or_exit
from archon_services.memory.app import memory_app
from archon_services.memory.settings import MemorySettings


def main() -> int:
    """Reads the settings from flags, environment and file, and serves. Returns the exit code."""
    settings = load_or_exit(MemorySettings)
    return run("memory", lambda: memory_app(settings), settings)


if __name__ == "__main__":
    sys.exit(main())
