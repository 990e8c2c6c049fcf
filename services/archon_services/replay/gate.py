"""The gate before the dispatches of a run that is run again: they come in the recorded order."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from archon_services.replay.naming import Names


class ScriptedGate:
    """Admits the `scripted` attempts, pairs of a task's name and a number, when the script says so, and all others at
    once. `names` are those of the run: an attempt at a task whose creation was not seen yet waits for that."""

    def __init__(self, names: Names, scripted: Iterable[tuple[str, int]]) -> None:
        self._names = names
        self._closed = set(scripted)
        self._waiting: dict[tuple[str, int], Callable[[], None]] = {}

    def admits(self, task_id: str, attempt: int, wake: Callable[[], None]) -> bool:
        """As in DispatchGate."""
        name = self._names.tasks.get(task_id)
        if name is not None and (name, attempt) not in self._closed:
            return True
        self._waiting[task_id, attempt] = wake
        return False

    def admit(self, name: str, attempt: int) -> None:
        """Lets an attempt pass."""
        self._closed.discard((name, attempt))
        self.look_again()

    def close(self, name: str, attempt: int) -> None:
        """Holds an attempt back again."""
        self._closed.add((name, attempt))

    def look_again(self) -> None:
        """Has the attempts that wait ask again: names have become known."""
        waiting, self._waiting = self._waiting, {}
        for wake in waiting.values():
            wake()
