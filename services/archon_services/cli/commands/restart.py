"""`archon restart`: restarts the instances of roles of a mesh on this machine."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from archon_services.cli.render.output import print_stderr
from archon_services.cli.target.mesh import running_home
from archon_services.local_mesh import send_command


def restart(
    roles: Annotated[list[str], typer.Argument(metavar="ROLE...", help="Roles of the mesh in ARCHON_HOME.")],
) -> None:
    """Restart the instances of roles, one after the other.

    Each instance hands over its tasks in progress, which costs no run an attempt, and is registered again before the
    next one is restarted. Ctrl-C ends this command, not the restart.
    """
    steps: list[str] = []

    def report(step: str) -> None:
        steps.append(step)
        print_stderr(step)

    asyncio.run(send_command(running_home(), {"restart": roles}, report))
    count = "1 instance" if len(steps) == 1 else f"{len(steps)} instances"
    print(f"Restarted {count} of {', '.join(dict.fromkeys(roles))}.")
