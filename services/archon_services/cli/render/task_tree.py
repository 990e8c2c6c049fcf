"""The order in which tasks are shown: each below the task that delegated it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar


class TaskNode(Protocol):
    """A task with the id of the task that delegated it."""

    @property
    def task_id(self) -> str: ...

    @property
    def parent_task_id(self) -> str: ...


T = TypeVar("T", bound=TaskNode)


def children_of(tasks: Iterable[T]) -> Mapping[str, list[T]]:
    """Groups tasks by their parent's id, in the given order. Tasks without a parent among `tasks` are under ""."""
    tasks = list(tasks)
    task_ids = {task.task_id for task in tasks if task.task_id}
    children: dict[str, list[T]] = {}
    for task in tasks:
        children.setdefault(task.parent_task_id if task.parent_task_id in task_ids else "", []).append(task)
    return children


def in_order(tasks: Iterable[T]) -> Iterator[tuple[int, T]]:
    """Yields depth and task, depth first: each task after the one that delegated it."""
    children = children_of(tasks)
    stack = [(0, task) for task in reversed(children.get("", []))]
    while stack:
        depth, task = stack.pop()
        yield depth, task
        if task.task_id:
            stack += [(depth + 1, child) for child in reversed(children.get(task.task_id, []))]
