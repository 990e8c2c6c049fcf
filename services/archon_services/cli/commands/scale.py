"""`archon scale`: changes the number of instances of roles of a mesh on this machine."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from archon.plain_text import counted
from archon_services.cli.name_pairs import read_pairs
from archon_services.cli.render.output import print_stderr
from archon_services.cli.target.mesh import running_home
from archon_services.local_mesh import send_command


def scale(
    replicas: Annotated[
        list[str], typer.Argument(metavar="ROLE=N...", help="Roles of the mesh in ARCHON_HOME, and their numbers.")
    ],
) -> None:
    """Change the number of instances of roles until the mesh stops.

    Returns when new instances are registered. Instances that are stopped hand over their tasks in progress, which costs
    no run an attempt. Ctrl-C ends this command, not the change.
    """
    wanted = read_pairs(replicas, "ROLE=N", "designer=2")
    asyncio.run(send_command(running_home(), {"scale": wanted}, print_stderr))
    print(f"The mesh has {', '.join(counted(count, 'instance') + f' of {role}' for role, count in wanted.items())}.")
