"""Finds instances for the tasks of one run, and waits for room where there is none."""

from __future__ import annotations

from collections.abc import Callable

from archon_mesh.core.run import Place
from archon_mesh.core.run.types import Requirement
from archon_services.orchestrator.ports import Transport


class Placement:
    """`wake` is called when somebody may have room for a task that found none."""

    def __init__(self, transport: Transport, wake: Callable[[], None]) -> None:
        self._transport = transport
        self._wake = wake
        self._waiting: dict[str, Callable[[], None]] = {}
        self._woken: dict[str, Requirement] = {}
        """Who was told that there is room, and hasn't looked since."""

    def find(self, place: Place) -> str | None:
        """An instance whose slot is reserved for the task; None: it waits for one."""
        self._woken.pop(place.task_id, None)
        instance_id = self._transport.reserve(place.want)
        if instance_id is None:
            if place.task_id not in self._waiting:
                self._waiting[place.task_id] = self._transport.when_free(place.want, self._freed(place))
            return None
        if call_off := self._waiting.pop(place.task_id, None):
            call_off()
        return instance_id

    def _freed(self, place: Place) -> Callable[[], None]:
        def wake() -> None:
            self._waiting.pop(place.task_id, None)
            self._woken[place.task_id] = place.want
            self._wake()

        return wake

    def pass_on(self) -> None:
        """Room that was found for tasks which need none now, paused or over, is the next one's in the line."""
        woken, self._woken = self._woken, {}
        for want in woken.values():
            if (instance_id := self._transport.reserve(want)) is not None:
                self._transport.release(instance_id)

    def call_off(self) -> None:
        """Nobody waits any more."""
        self.pass_on()
        for call_off in self._waiting.values():
            call_off()
        self._waiting.clear()
