"""`python -m archon_services.registry`: one process of the registry, until SIGTERM."""

import sys

from archon_services.common.process import run
from archon_services.common.settings import load_or_exit
from archon_services.registry.app import RegistrySettings, registry_app


def main() -> int:
    """Reads flags, environment and file; returns the exit code."""
    settings = load_or_exit(RegistrySettings)
    return run("registry", lambda: registry_app(settings), log_level=settings.log_level, ready_file=settings.ready_file)


if __name__ == "__main__":
    sys.exit(main())
