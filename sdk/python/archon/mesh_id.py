"""The id of the mesh to which a process belongs (`ARCHON_MESH`, set by `archon up` for its processes).

Two meshes on one machine use the same default ports: after a restart, the address of one may lead to the other.
Registrations, watches of the registry and sessions carry the id as metadata; a server refuses another one than its own.
A caller or a server without an id is let in.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from archon.errors import FailedPrecondition

KEY: Final = "archon-mesh-id"
VARIABLE: Final = "ARCHON_MESH"


def outgoing() -> tuple[tuple[str, str], ...]:
    """Returns the metadata of a call from one member of the mesh to another."""
    own = os.environ.get(VARIABLE, "")
    return ((KEY, own),) if own else ()


def check(metadata: Iterable[tuple[str, str | bytes]]) -> None:
    """Raises FailedPrecondition if the caller belongs to another mesh than this process."""
    own = os.environ.get(VARIABLE, "")
    if not own:
        return
    for key, given in metadata:
        if key == KEY and given and given != own:
            raise FailedPrecondition(
                f"this is a member of the mesh {own}, and the caller belongs to the mesh {given!s}: the address "
                "belongs to another mesh now; the file mesh-id in the folder of a mesh has its id",
                metadata={"mesh": own},
            )
