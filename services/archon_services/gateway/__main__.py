"""`python -m archon_services.gateway`: runs the HTTP gateway as a process until SIGTERM or SIGINT."""

import sys

from archon_services.common.process import run
from archon_services.common.settings import load_or_exit
from archon_services.gateway.app import gateway_app
from archon_services.gateway.serving import raise_open_files
from archon_services.gateway.settings import GatewaySettings


def main() -> int:
    """Reads the settings from flags, environment and file, and serves. Returns the exit code."""
    settings = load_or_exit(GatewaySettings)
    raise_open_files()
    return run("gateway", lambda: gateway_app(settings), settings)


if __name__ == "__main__":
    sys.exit(main())
