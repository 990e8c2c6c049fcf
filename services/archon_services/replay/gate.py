"""The gate before the dispatches of a run that is run again: they come in the recorded order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from archon_services.replay.naming import Names


class ScriptedGate:
    """Admits the `scripted` attempts, pairs of a task's name and a number, and all attempts at the `recorded` tasks,
    when the script says so: an attempt that it never names waits for ever. Other attempts are admitted at once.
    `names` are the run's: an attempt at a task whose creation was not seen yet waits for that."""

    def __init__(self, names: Names, scripted: Iterable[tuple[str, int]], recorded: Collection[str] = ()) -> None:
        self._names = names
        self._scripted, self._recorded = set(scripted), recorded
        self._admitted: set[tuple[str, int]] = set()
        self._waiting: dict[tuple[str, int], Callable[[], None]] = {}

    def admits(self, task_id: str, attempt: int, wake: Callable[[], None]) -> bool:
        """Returns whether the attempt may be dispatched; if not, `wake` is called once it may."""
        name = self._names.tasks.get(task_id)
        key = name or "", attempt
        is_held = name is None or name in self._recorded or key in self._scripted
        if not is_held or key in self._admitted:
            return True
        self._waiting[task_id, attempt] = wake
        return False

    def admit(self, name: str, attempt: int) -> None:
        """Admits one attempt of the task with this name, and wakes the attempts that wait."""
        self._admitted.add((name, attempt))
        self.look_again()

    def close(self, name: str, attempt: int) -> None:
        """Holds an attempt back again."""
        self._admitted.discard((name, attempt))

    def look_again(self) -> None:
        """Has the attempts that wait ask again: names have become known."""
        waiting, self._waiting = self._waiting, {}
        for wake in waiting.values():
            wake()
