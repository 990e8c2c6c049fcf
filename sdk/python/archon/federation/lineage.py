"""The meshes and the task above a run of another mesh, in the metadata of the run: loops are found by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from archon.agent import TaskContext
from archon.errors import DelegationLoop, DelegationTooDeep, InvalidArgument

OWN_PREFIX: Final = "dev.archon/"

MESHES_KEY: Final = "dev.archon/meshes"
"""The key of a run's metadata with the ids of the meshes above it, outermost first, separated by commas."""

PARENT_MESH_KEY: Final = "dev.archon/parent-mesh"
"""The id of the mesh whose task the run is."""

PARENT_RUN_KEY: Final = "dev.archon/parent-run"
"""The run whose task the run is."""

PARENT_TASK_KEY: Final = "dev.archon/parent-task"
"""The task that the run is."""

MAX_MESHES: Final = 8
"""Meshes above a run."""

MAX_KEYS: Final = 60
"""Keys of a run's metadata that cross to another mesh: with the keys of the lineage at most 64."""


def lineage_of(task: TaskContext, own: str, other: str) -> dict[str, str]:
    """Returns the metadata of a run of the mesh `other` that is a task of the mesh `own`; `other` is empty if its id is
    unknown.

    Raises DelegationLoop if one of the two is above the task already, and DelegationTooDeep above MAX_MESHES.
    """
    above = [mesh for mesh in task.metadata.get(MESHES_KEY, "").split(",") if mesh]
    chain = [*above, own]
    if own in above:
        raise _loop(chain)
    if other and other in chain:
        raise _loop([*chain, other])
    if len(chain) > MAX_MESHES:
        raise DelegationTooDeep(
            f"delegation too deep: {len(chain)} meshes wait for each other, at most {MAX_MESHES} may",
            metadata={"chain": " -> ".join(chain), "limit": str(MAX_MESHES)},
        )
    return {
        MESHES_KEY: ",".join(chain),
        PARENT_MESH_KEY: own,
        PARENT_RUN_KEY: task.run_id,
        PARENT_TASK_KEY: task.task_id,
    }


def crossing(metadata: Mapping[str, str], patterns: Sequence[str]) -> dict[str, str]:
    """Returns the pairs whose key matches a pattern of a shell. Keys of Archon itself need a pattern that begins with
    `dev.archon/`. Raises InvalidArgument if they are too many."""
    found = {key: value for key, value in metadata.items() if any(_matches(key, each) for each in patterns)}
    if len(found) > MAX_KEYS:
        raise InvalidArgument(f"{len(found)} keys of metadata are to cross to another mesh, at most {MAX_KEYS} may")
    return found


def _matches(key: str, pattern: str) -> bool:
    return fnmatchcase(key, pattern) and key.startswith(OWN_PREFIX) == pattern.startswith(OWN_PREFIX)


def _loop(chain: Sequence[str]) -> DelegationLoop:
    path = " -> ".join(chain)
    message = f"delegation loop: the mesh {chain[-1]} is already waiting for this task: {path}"
    return DelegationLoop(message, metadata={"chain": path})
