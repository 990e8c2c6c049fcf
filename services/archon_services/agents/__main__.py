"""Serves one role: `python -m archon_services.agents designer`, or the path of a YAML file; then flags (`--help`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from archon.errors import ArchonError
from archon_services.agents.app import serve_file, serve_role
from archon_services.agents.reference import find_role
from archon_services.agents.settings import AgentServiceSettings
from archon_services.common.settings import load_or_exit


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 2 for a role or file that there isn't, or that is wrong."""
    given = list(sys.argv[1:] if argv is None else argv)
    if not given or given[0].startswith("-"):
        sys.stderr.write("error: which role? its name, or the file that declares it, comes first\n")
        return 2
    settings = load_or_exit(AgentServiceSettings, given[1:])
    try:
        found = find_role(given[0])
        return serve_role(found, settings) if not isinstance(found, str) else serve_file(found, settings)
    except ArchonError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
