"""`python -m archon_services.memory`: one process of the shared memory, until SIGTERM."""

import sys

from archon_services.common.process import run
from archon_services.common.settings import load_or_exit
from archon_services.memory.app import MemorySettings, memory_app


def main() -> int:
    """Reads flags, environment and file; returns the exit code."""
    settings = load_or_exit(MemorySettings)
    return run("memory", lambda: memory_app(settings), log_level=settings.log_level, ready_file=settings.ready_file)


if __name__ == "__main__":
    sys.exit(main())
