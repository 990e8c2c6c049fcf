"""The identity with which a command calls the mesh."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from archon_services.cli.errors import USAGE, CliError


@contextmanager
def calling_as(identity: str) -> Iterator[None]:
    """Has calls within the block carry an identity, for which the secret of the mesh vouches; empty changes nothing.
    Raises CliError without the secret."""
    if not identity:
        yield
        return
    if not os.environ.get("ARCHON_MESH_SECRET"):
        raise CliError(
            "--as needs the secret of the mesh, which vouches for the identity",
            hint="Set ARCHON_MESH_SECRET to the value that the services have.",
            code=USAGE,
        )
    from archon import context

    with context.serving(replace(context.current(), identity=identity)):
        yield
