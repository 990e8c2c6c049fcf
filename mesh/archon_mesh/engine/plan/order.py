"""The order of a plan: who depends on whom, and in which order the subtasks can be executed one after the other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from archon_mesh.engine.decisions import decision_fault
from archon_mesh.engine.plan.errors import (
    DanglingDependency,
    DuplicateSubTask,
    EmptyPlan,
    InvalidPlan,
    PlanCycle,
    shown,
)
from archon_mesh.engine.plan.subtask import SubTask
from archon_mesh.engine.plan.task import Task


@dataclass(frozen=True, slots=True)
class Plan:
    """The graph of a task. `subtask_dag[x]` has the ids of the subtasks that depend on x.

    `execution_order` has each id after those that it depends on, and otherwise in the order of the subtasks.
    """

    task_id: str
    subtask_dag: dict[str, list[str]]
    execution_order: list[str]

    @classmethod
    def of(cls, task: Task) -> Plan:
        """Returns the plan of a task. Raises EmptyPlan, DuplicateSubTask, DanglingDependency, PlanCycle, and
        InvalidPlan for a decision that does not exist or has other arguments."""
        by_id = {subtask.id: subtask for subtask in task.subtasks}
        if not by_id:
            raise EmptyPlan(f"task {shown(task.id)} has no subtasks")
        if len(by_id) < len(task.subtasks):
            counts = Counter(subtask.id for subtask in task.subtasks)
            raise DuplicateSubTask(f"two subtasks have the id {shown(counts.most_common(1)[0][0])!r}")
        for subtask in task.subtasks:
            for id_ in subtask.dependencies:
                if id_ not in by_id:
                    message = f"subtask {shown(subtask.id)!r} depends on {shown(id_)!r}, which is no subtask"
                    raise DanglingDependency(message)
            if subtask.decision and (problem := decision_fault(subtask.decision, subtask.tool_args)):
                raise InvalidPlan(f"subtask {shown(subtask.id)!r}: {problem}")
        dag = dependants(task)
        order = topological_order(task.subtasks, dag)
        if len(order) < len(by_id):
            ordered = set(order)
            raise PlanCycle(find_cycle({id_: each for id_, each in by_id.items() if id_ not in ordered}))
        return cls(task.id, dag, order)


def dependants(task: Task) -> dict[str, list[str]]:
    """Returns, for each subtask, the ids of those that depend on it, in the order of the subtasks. Dependencies on ids
    that no subtask has are left out."""
    dag: dict[str, list[str]] = {subtask.id: [] for subtask in task.subtasks}
    for subtask in task.subtasks:
        for id_ in dict.fromkeys(subtask.dependencies):
            if id_ in dag:
                dag[id_].append(subtask.id)
    return dag


def topological_order(subtasks: tuple[SubTask, ...], dag: dict[str, list[str]]) -> list[str]:
    """Returns the ids in an order of execution; those in a cycle and behind it are missing.

    Source: A. B. Kahn, Topological sorting of large networks, CACM 5 (11), 1962.
    """
    # The first of the free ones, not the one that became free first: a plan in a valid order keeps this order.
    position = {subtask.id: index for index, subtask in enumerate(subtasks)}
    open_count = {subtask.id: sum(id_ in dag for id_ in set(subtask.dependencies)) for subtask in subtasks}
    free = [position[id_] for id_, count in open_count.items() if count == 0]
    heapify(free)
    order = []
    while free:
        id_ = subtasks[heappop(free)].id
        order.append(id_)
        for dependant in dag[id_]:
            open_count[dependant] -= 1
            if open_count[dependant] == 0:
                heappush(free, position[dependant])
    return order


def find_cycle(by_id: dict[str, SubTask]) -> list[str]:
    """Returns the ids of a cycle, each depending on the one before it, and the first on the last.

    The cycle begins with the first of its subtasks. Each of the given subtasks must depend on one of them, as those do
    that Kahn's algorithm leaves.
    """
    id_ = next(iter(by_id))
    path: dict[str, int] = {}
    while id_ not in path:
        path[id_] = len(path)
        id_ = next(each for each in by_id[id_].dependencies if each in by_id)
    cycle = list(path)[path[id_] :][::-1]
    members = set(cycle)
    start = cycle.index(next(each for each in by_id if each in members))
    return cycle[start:] + cycle[:start]
