"""Tasks in the order they are shown: each below the one that delegated it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar


class InTree(Protocol):
    """A task of a run, as an event or the run itself tells of it."""

    @property
    def task_id(self) -> str: ...

    @property
    def parent_task_id(self) -> str: ...


T = TypeVar("T", bound=InTree)


def children_of(tasks: Iterable[T]) -> Mapping[str, list[T]]:
    """By the id of the task that delegated them, in the order given; under "" those that the run itself made, or whose
    parent isn't among them."""
    tasks = list(tasks)
    known = {task.task_id for task in tasks if task.task_id}
    below: dict[str, list[T]] = {}
    for task in tasks:
        below.setdefault(task.parent_task_id if task.parent_task_id in known else "", []).append(task)
    return below


def in_order(tasks: Iterable[T]) -> Iterator[tuple[int, T]]:
    """Each task after the one that delegated it, with how deep it lies."""
    below = children_of(tasks)
    stack = [(0, task) for task in reversed(below.get("", []))]
    while stack:
        depth, task = stack.pop()
        yield depth, task
        if task.task_id:
            stack += [(depth + 1, child) for child in reversed(below.get(task.task_id, []))]
