"""python -m archon_services.orchestrator"""

from __future__ import annotations

import sys

from archon_services.common.process import run
from archon_services.common.settings import load_or_exit
from archon_services.orchestrator.app import orchestrator_app
from archon_services.orchestrator.settings import OrchestratorSettings


def main() -> int:
    """Serves until a signal."""
    settings = load_or_exit(OrchestratorSettings)
    return run("orchestrator", lambda: orchestrator_app(settings), settings)


if __name__ == "__main__":
    sys.exit(main())
