"""Placement: finds an instance with free capacity for each ready task of a run, or waits for one."""

from __future__ import annotations

from collections.abc import Callable

from archon_mesh.engine import Place
from archon_mesh.engine.types import Requirement
from archon_services.orchestrator.ports import DispatchGate, Slot, Transport


class Placement:
    """`wake` is called when an instance may have capacity for a task that found none, and when `gate` may admit one."""

    __slots__ = ("_gate", "_run_id", "_transport", "_waiting", "_wake", "_woken")

    def __init__(
        self, run_id: str, transport: Transport, wake: Callable[[], None], gate: DispatchGate | None = None
    ) -> None:
        self._gate = gate
        self._run_id = run_id
        self._transport = transport
        self._wake = wake
        self._waiting: dict[str, Callable[[], None]] = {}
        self._woken: dict[str, Requirement] = {}
        """Tasks that were woken for free capacity and have not been placed since."""

    @property
    def woken(self) -> tuple[str, ...]:
        """Tasks for which there may be capacity now."""
        return tuple(self._woken)

    def find(self, place: Place) -> Slot | None:
        """Returns a slot that is reserved for the task, or None: then the task waits for one."""
        if self._woken:
            self._woken.pop(place.task_id, None)
        if self._gate is not None and not self._gate.admits(place.task_id, place.attempt, self._freed(place)):
            return None
        slot = self._transport.reserve(place.want, place.avoid, place.prefer)
        if slot is None:
            if place.task_id not in self._waiting:
                self._waiting[place.task_id] = self._transport.when_free(place.want, self._run_id, self._freed(place))
            return None
        if self._waiting and (cancel := self._waiting.pop(place.task_id, None)):
            cancel()
        return slot

    def _freed(self, place: Place) -> Callable[[], None]:
        def wake() -> None:
            self._waiting.pop(place.task_id, None)
            self._woken[place.task_id] = place.want
            self._wake()

        return wake

    def pass_on(self) -> None:
        """Passes capacity that was offered to tasks which no longer need it, paused or ended, to the next waiting
        task."""
        if not self._woken:
            return
        woken, self._woken = self._woken, {}
        for want in woken.values():
            if (slot := self._transport.reserve(want)) is not None:
                self._transport.release(slot.instance_id)

    def cancel(self) -> None:
        """Withdraws the requests for capacity, and passes on the capacity that they were given since."""
        for cancel in self._waiting.values():  # first: the capacity passed on is for others
            cancel()
        self._waiting.clear()
        self.pass_on()
