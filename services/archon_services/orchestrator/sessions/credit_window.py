"""Which attempts count against an instance's window, and which only wait for their delegations (rule D25)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from archon.api.agent.v1 import session_pb2
from archon_services.orchestrator.sessions.attempt_channel import AttemptChannel


class CreditWindow:
    """A task that only waits gives its slot back, as long as the instance lets so many wait, and takes one again before
    the last answer that it waits for goes out: until there is room that answer is held. `freed` is called when a slot
    gets free, `room` says how many there are."""

    def __init__(self, freed: Callable[[], None], room: Callable[[], int]) -> None:
        self.in_flight = 0
        self.waiting = 0
        self.max_waiting = 0
        self._freed = freed
        self._room = room
        self._held: deque[tuple[AttemptChannel, session_pb2.OrchestratorFrame]] = deque()

    def take(self, binding: AttemptChannel) -> None:
        """An attempt begins, or is taken up: one that has delegations open only waits."""
        binding.waiting = bool(binding.outstanding)
        if binding.waiting:
            self.waiting += 1
        else:
            self.in_flight += 1

    def leave(self, binding: AttemptChannel) -> None:
        """It counts no more."""
        if binding.waiting:
            binding.waiting = False
            self.waiting -= 1
        else:
            self.in_flight -= 1
        self._freed()

    def delegated(self, binding: AttemptChannel, delegation_id: str) -> None:
        """It waits for one more answer."""
        binding.outstanding.add(delegation_id)
        if not binding.waiting and self.waiting < self.max_waiting:
            binding.waiting = True
            self.in_flight -= 1
            self.waiting += 1
            self._freed()

    def needless(self, binding: AttemptChannel, delegation_id: str) -> None:
        """It waits for an answer no more; where it was the last it goes on at once, room or not."""
        binding.outstanding.discard(delegation_id)
        if binding.waiting and not binding.outstanding:
            self._go_on(binding)

    def may_pass(self, binding: AttemptChannel, frame: session_pb2.OrchestratorFrame) -> bool:
        """Whether this frame may go out now; one that has to wait for a slot is kept."""
        if not frame.HasField("delegate_result"):
            return True
        if binding.waiting and binding.outstanding <= {frame.delegate_result.delegation_id}:
            if self._room() <= 0:
                self._held.append((binding, frame))
                return False
            self._go_on(binding)
        binding.outstanding.discard(frame.delegate_result.delegation_id)
        return True

    def released(self) -> list[tuple[AttemptChannel, session_pb2.OrchestratorFrame]]:
        """The answers that were held and may go out now."""
        out = []
        while self._held and self._room() > 0:
            binding, frame = self._held.popleft()
            if binding.concluded:
                continue
            if binding.waiting:
                self._go_on(binding)
            binding.outstanding.discard(frame.delegate_result.delegation_id)
            out.append((binding, frame))
        return out

    def _go_on(self, binding: AttemptChannel) -> None:
        binding.waiting = False
        self.waiting -= 1
        self.in_flight += 1
