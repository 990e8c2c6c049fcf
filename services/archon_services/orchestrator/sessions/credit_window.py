"""Counts the attempts that use an instance's credit, and those that only wait for their delegations (rule D25)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from archon.api.agent.v1 import session_pb2
from archon_services.orchestrator.sessions.attempt_channel import AttemptChannel


class CreditWindow:
    """The slots of one instance.

    An attempt that only waits gives its slot back, as long as the instance allows so many waiting ones. It takes a slot
    again before the last answer that it waits for is sent: without a free slot that answer is held. `freed` is called
    when a slot becomes free, `room` returns the number of free slots.
    """

    def __init__(self, freed: Callable[[], None], room: Callable[[], int]) -> None:
        self.in_flight = 0
        self.waiting = 0
        self.max_waiting = 0
        self._freed = freed
        self._room = room
        self._held: deque[tuple[AttemptChannel, session_pb2.OrchestratorFrame]] = deque()

    def take(self, attempt: AttemptChannel) -> None:
        """Counts a new or adopted attempt; one with open delegations counts as waiting."""
        attempt.waiting = bool(attempt.outstanding)
        if attempt.waiting:
            self.waiting += 1
        else:
            self.in_flight += 1

    def leave(self, attempt: AttemptChannel) -> None:
        """Stops counting a concluded attempt."""
        if attempt.waiting:
            attempt.waiting = False
            self.waiting -= 1
        else:
            self.in_flight -= 1
        self._freed()

    def delegated(self, attempt: AttemptChannel, delegation_id: str) -> None:
        """The attempt waits for one more answer."""
        attempt.outstanding.add(delegation_id)
        if not attempt.waiting and self.waiting < self.max_waiting:
            attempt.waiting = True
            self.in_flight -= 1
            self.waiting += 1
            self._freed()

    def delegation_cancelled(self, attempt: AttemptChannel, delegation_id: str) -> None:
        """The attempt waits for one answer less; after the last one it continues at once, even without a free slot."""
        attempt.outstanding.discard(delegation_id)
        if attempt.waiting and not attempt.outstanding:
            self._use_slot(attempt)

    def may_pass(self, attempt: AttemptChannel, frame: session_pb2.OrchestratorFrame) -> bool:
        """Whether a frame can be sent now; if not, it is held until a slot is free."""
        if not frame.HasField("delegate_result"):
            return True
        if attempt.waiting and attempt.outstanding <= {frame.delegate_result.delegation_id}:
            if self._room() <= 0:
                self._held.append((attempt, frame))
                return False
            self._use_slot(attempt)
        attempt.outstanding.discard(frame.delegate_result.delegation_id)
        return True

    def released(self) -> list[tuple[AttemptChannel, session_pb2.OrchestratorFrame]]:
        """Takes the held answers for which there is a free slot, in order."""
        released = []
        while self._held and self._room() > 0:
            attempt, frame = self._held.popleft()
            if attempt.concluded:
                continue
            if attempt.waiting:
                self._use_slot(attempt)
            attempt.outstanding.discard(frame.delegate_result.delegation_id)
            released.append((attempt, frame))
        return released

    def _use_slot(self, attempt: AttemptChannel) -> None:
        attempt.waiting = False
        self.waiting -= 1
        self.in_flight += 1
