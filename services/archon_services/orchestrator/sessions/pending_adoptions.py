"""Adoptions and replies for instances that the registry has not reported yet, as may happen after a takeover."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from archon.api.agent.v1 import session_pb2
from archon.api.common.v1 import common_pb2
from archon_services.orchestrator.ports import AttemptStatus
from archon_services.orchestrator.sessions.attempt_channel import Key, key_of


@dataclass(slots=True)
class Adoption:
    """An attempt to be adopted, and the frames to be sent to it afterwards, in order."""

    ref: common_pb2.TaskRef
    role: str
    standing: AttemptStatus
    frames: list[session_pb2.OrchestratorFrame] = field(default_factory=list)


class PendingAdoptions:
    """Adoptions by instance, until its session starts, they are cancelled, or the resume window ends."""

    def __init__(self) -> None:
        self._adoptions: dict[str, dict[Key, Adoption]] = {}

    def add(self, instance_id: str, adoption: Adoption) -> None:
        """Replaces an earlier adoption of the same attempt."""
        self._adoptions.setdefault(instance_id, {})[key_of(adoption.ref)] = adoption

    def tell(self, instance_id: str, ref: common_pb2.TaskRef, frame: session_pb2.OrchestratorFrame) -> None:
        """Keeps a frame for a pending attempt; drops it if the attempt is not pending."""
        adoption = self._adoptions.get(instance_id, {}).get(key_of(ref))
        if adoption is not None:
            adoption.frames.append(frame)

    def take(self, instance_id: str) -> Iterator[Adoption]:
        """Removes and returns the adoptions for this instance."""
        return iter(self._adoptions.pop(instance_id, {}).values())

    def cancel(self, instance_id: str, ref: common_pb2.TaskRef) -> None:
        """Removes the adoption of this attempt, if there is one."""
        self._adoptions.get(instance_id, {}).pop(key_of(ref), None)

    def release_run(self, run_id: str) -> list[tuple[str, common_pb2.TaskRef]]:
        """Removes the adoptions of a run; returns its attempts, each with its instance."""
        released = [
            (instance_id, adoption.ref)
            for instance_id, adoptions in self._adoptions.items()
            for adoption in adoptions.values()
            if adoption.ref.run_id == run_id
        ]
        for instance_id, ref in released:
            self.cancel(instance_id, ref)
        return released
