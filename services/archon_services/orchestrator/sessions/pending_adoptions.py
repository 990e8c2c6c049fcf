"""What is to be said to instances that aren't known yet: after a takeover the registry may name them a little later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from archon.api.agent.v1 import session_pb2
from archon.api.common.v1 import common_pb2
from archon_services.orchestrator.ports import AttemptStatus
from archon_services.orchestrator.sessions.attempt_channel import Key, key_of


@dataclass(slots=True)
class Adoption:
    """An attempt that is to be asked for, and what it is to be told then, in order."""

    ref: common_pb2.TaskRef
    role: str
    standing: AttemptStatus
    frames: list[session_pb2.OrchestratorFrame] = field(default_factory=list)


class PendingAdoptions:
    """By instance. Each is asked for, called off, or too late within the resume window."""

    def __init__(self) -> None:
        self._adoptions: dict[str, dict[Key, Adoption]] = {}

    def add(self, instance_id: str, adoption: Adoption) -> None:
        """To be asked for; a later standing replaces an earlier one."""
        self._adoptions.setdefault(instance_id, {})[key_of(adoption.ref)] = adoption

    def tell(self, instance_id: str, ref: common_pb2.TaskRef, frame: session_pb2.OrchestratorFrame) -> None:
        """An attempt that isn't to be asked for is told nothing."""
        adoption = self._adoptions.get(instance_id, {}).get(key_of(ref))
        if adoption is not None:
            adoption.frames.append(frame)

    def take(self, instance_id: str) -> Iterator[Adoption]:
        """Everything for this instance, which waits no more."""
        return iter(self._adoptions.pop(instance_id, {}).values())

    def call_off(self, instance_id: str, ref: common_pb2.TaskRef) -> None:
        """Nobody needs it."""
        self._adoptions.get(instance_id, {}).pop(key_of(ref), None)

    def release_run(self, run_id: str) -> list[tuple[str, common_pb2.TaskRef]]:
        """The run is somebody else's, or over: its attempts, by instance, which are asked for no more."""
        gone = [
            (instance_id, adoption.ref)
            for instance_id, adoptions in self._adoptions.items()
            for adoption in adoptions.values()
            if adoption.ref.run_id == run_id
        ]
        for instance_id, ref in gone:
            self.call_off(instance_id, ref)
        return gone
