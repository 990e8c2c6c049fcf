"""The tasks that wait for a free slot. Runs take turns: one with thousands of tasks does not keep others out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from typing import Final

from archon_mesh.engine.types import Requirement

Wake = Callable[[], None]

_SLACK: Final = 64
"""Entries of runs that have left a heap, beyond as many as have not, before it is built anew."""


class _Queue:
    """The callbacks of one requirement, by run."""

    def __init__(self) -> None:
        self._runs: dict[str, OrderedDict[int, Wake]] = {}
        self._order: list[tuple[int, str]] = []
        """A heap of turns. An entry is valid if `_turns` has it; turns only grow, so a valid one is at most too low."""
        self._turns: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._runs)

    def __len__(self) -> int:
        return sum(len(tasks) for tasks in list(self._runs.values()))

    def add(self, run_id: str, turn: int, ticket: int, wake: Wake) -> None:
        if run_id not in self._runs:
            self._runs[run_id] = OrderedDict()
            self._turns[run_id] = turn
            heappush(self._order, (turn, run_id))
        self._runs[run_id][ticket] = wake

    def first(self, turns: dict[str, list[int]]) -> str:
        """Returns the run with the oldest last turn. `turns` has the last turn of each run over all queues."""
        while True:
            turn, run_id = self._order[0]
            if self._turns.get(run_id) != turn:
                heappop(self._order)
            elif turn == (last := turns[run_id][0]):
                return run_id
            else:
                self._turns[run_id] = last
                heapreplace(self._order, (last, run_id))

    def take(self, run_id: str) -> Wake:
        """Removes and returns the oldest callback of a run."""
        return self._remove(run_id, next(iter(self._runs[run_id])))

    def discard(self, run_id: str, ticket: int) -> bool:
        """Removes a callback; returns whether it was there."""
        if ticket not in self._runs.get(run_id, ()):
            return False
        self._remove(run_id, ticket)
        return True

    def _remove(self, run_id: str, ticket: int) -> Wake:
        tasks = self._runs[run_id]
        wake = tasks.pop(ticket)
        if not tasks:
            del self._runs[run_id], self._turns[run_id]
            if len(self._order) > 2 * len(self._turns) + _SLACK:
                self._order = [(turn, run) for run, turn in self._turns.items()]
                heapify(self._order)
        return wake


class _Role:
    """The callbacks of one role."""

    def __init__(self) -> None:
        self.queues: dict[Requirement, _Queue] = {}
        self.turns: dict[str, list[int]] = {}
        """By run: the ticket of its last turn, or of its first callback, and how many callbacks it has."""
        self.last_woken: dict[str, int] = {}
        """The runs that the last call of `wake` has woken, in order, each with its ticket in `turns`."""


class WaitingList:
    """Callbacks by role, requirement and run. Callbacks of one run and requirement are called in the order in which
    they were added."""

    def __init__(self) -> None:
        self._roles: dict[str, _Role] = {}
        self._tickets = count(1)

    def add(self, requirement: Requirement, run_id: str, wake: Wake) -> Wake:
        """Adds a callback; returns a function that removes it, if it has not been called."""
        ticket = next(self._tickets)
        role = self._roles.setdefault(requirement.role, _Role())
        standing = role.turns.setdefault(run_id, [ticket, 0])
        standing[1] += 1
        if standing[0] == ticket and run_id in role.last_woken:  # it comes back
            role.last_woken[run_id] = ticket
        role.queues.setdefault(requirement, _Queue()).add(run_id, standing[0], ticket, wake)
        return lambda: self._remove(requirement, run_id, ticket)

    def _remove(self, requirement: Requirement, run_id: str, ticket: int) -> None:
        role = self._roles.get(requirement.role)
        queue = role.queues.get(requirement) if role is not None else None
        if role is not None and queue is not None and queue.discard(run_id, ticket):
            self._left(role, requirement, run_id)

    def requirements(self, role: str) -> list[Requirement]:
        """The requirements on this role that callbacks wait for."""
        return list(self._roles[role].queues) if role in self._roles else []

    def sizes(self) -> dict[str, int]:
        """Returns the number of callbacks by role. Any thread may call it."""
        return {
            name: sum(len(queue) for queue in list(role.queues.values())) for name, role in list(self._roles.items())
        }

    def wake(self, role_name: str, fits: Callable[[Requirement], bool], slots: int) -> None:
        """Calls and removes up to `slots` callbacks whose requirements fit, one of each run in turn."""
        role = self._roles.get(role_name)
        if role is None or slots <= 0:
            return
        for run_id, ticket in role.last_woken.items():  # those that have come since are before them
            if run_id in role.turns and role.turns[run_id][0] == ticket:
                role.turns[run_id][0] = next(self._tickets)
        role.last_woken.clear()
        fitting = [requirement for requirement in role.queues if fits(requirement)]
        for _ in range(slots):
            fitting = [requirement for requirement in fitting if requirement in role.queues]
            if not fitting:
                return
            heads = [(role.queues[requirement].first(role.turns), requirement) for requirement in fitting]
            run_id, requirement = min(heads, key=lambda head: role.turns[head[0]][0])
            wake = role.queues[requirement].take(run_id)
            role.turns[run_id][0] = ticket = next(self._tickets)
            role.last_woken.pop(run_id, None)
            role.last_woken[run_id] = ticket
            self._left(role, requirement, run_id)
            wake()

    def _left(self, role: _Role, requirement: Requirement, run_id: str) -> None:
        """Drops empty entries after a callback of a run has left."""
        role.turns[run_id][1] -= 1
        if not role.turns[run_id][1]:
            del role.turns[run_id]
        if not role.queues[requirement]:
            del role.queues[requirement]
        if not role.queues:
            self._roles.pop(requirement.role, None)
