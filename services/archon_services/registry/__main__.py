"""`python -m archon_services.registry`: runs the registry as a process until SIGTERM or SIGINT."""

import sys

from archon_services.common.process import run
from archon_services.common.settings import load_or_exit
from archon_services.registry.app import registry_app
from archon_services.registry.settings import RegistrySettings


def main() -> int:
    """Reads the settings from flags, environment and file, and serves. Returns the exit code."""
    settings = load_or_exit(RegistrySettings)
    return run("registry", lambda: registry_app(settings), settings)


if __name__ == "__main__":
    sys.exit(main())
