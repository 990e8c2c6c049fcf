"""Runs of other meshes that are tasks of this one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

CHILD_RUN_KEY: Final = "dev.archon/child-run"
"""The key of the metadata of an answer or a failure with the id of the run in the other mesh."""

CHILD_MESH_KEY: Final = "dev.archon/child-mesh"
"""The key of the metadata of an answer or a failure with the name of the other mesh."""


@dataclass(frozen=True, slots=True)
class ChildRun:
    """A run of another mesh, by the name under which this mesh knows it."""

    mesh: str
    run_id: str

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata that names the run."""
        return {CHILD_RUN_KEY: self.run_id, CHILD_MESH_KEY: self.mesh}

    @classmethod
    def in_metadata(cls, metadata: Mapping[str, str]) -> ChildRun | None:
        """Returns the run that the metadata of an answer or a failure names; None if it names none."""
        run_id = metadata.get(CHILD_RUN_KEY, "")
        return cls(metadata.get(CHILD_MESH_KEY, ""), run_id) if run_id else None
