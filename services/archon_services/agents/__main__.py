"""Serves one role: `python -m archon_services.agents ROLE [flags]`; ROLE is a reference role, `workflow`, or a YAML
file."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from archon.errors import ArchonError
from archon_services.agents.app import serve_file, serve_role, serve_workflows
from archon_services.agents.roles.catalogue import WORKFLOW_ROLE, find_role
from archon_services.agents.settings import AgentServiceSettings
from archon_services.common.settings import load_or_exit


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code: 2 if the role is missing, unknown or invalid."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0].startswith("-"):
        sys.stderr.write("error: missing role: its name or YAML file is the first argument\n")
        return 2
    settings = load_or_exit(AgentServiceSettings, arguments[1:])
    try:
        if arguments[0] == WORKFLOW_ROLE:
            return serve_workflows(settings)
        role = find_role(arguments[0])
        return serve_file(role, settings) if isinstance(role, str) else serve_role(role, settings)
    except ArchonError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
