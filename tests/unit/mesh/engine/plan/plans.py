"""Plans for tests, built and drawn at random."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from archon_mesh.engine.plan import SubTask, Task

IDS = st.sampled_from(["1", "2", "3", "a", "a.b", "b c", "", "é", "{x}"])
NAMES = st.sampled_from(["", "", "calculator", "calculater", "search", "nothing like it"])
TEXTS = st.sampled_from(["", " ", "...", "Find a hotel", "Add {1} and {2}", "{{1}}", "{nowhere}", "{a.b.c} {", "}}"])


def step(id: str, *dependencies: str, **fields: Any) -> SubTask:
    """Returns a subtask that depends on others."""
    return SubTask(id, fields.pop("description", f"Do {id}"), dependencies=dependencies, **fields)


def task_of(*subtasks: SubTask, query: str = "Do it", **fields: Any) -> Task:
    """Returns a task about its own query."""
    return Task("task-1", query, fields.pop("goal", query), subtasks, **fields)


def _arguments() -> st.SearchStrategy[dict[str, Any]]:
    values = st.recursive(TEXTS | st.integers(), lambda inner: st.lists(inner, max_size=2), max_leaves=4)
    return st.dictionaries(st.sampled_from(["x", "y"]), values, max_size=2)


SUBTASKS = st.builds(
    SubTask,
    IDS,
    TEXTS,
    tool_name=NAMES,
    tool_args=_arguments(),
    dependencies=st.lists(IDS, max_size=4).map(tuple),
    role=NAMES,
    capability=NAMES,
    critical=st.booleans(),
    partial_input=st.booleans(),
)

TASKS = st.builds(
    Task,
    st.just("task-1"),
    st.sampled_from(["", "?", "Find a hotel in Rome", "15 * 24"]),
    st.sampled_from(["", "Find a hotel", "Bake bread", "360"]),
    st.lists(SUBTASKS, min_size=1, max_size=40).map(tuple),
    st.sampled_from([{}, {"city": "Rome"}, {"a": 1}]),
)
"""Tasks with all kinds of faults."""


@st.composite
def plans(draw: st.DrawFn, max_size: int = 12) -> Task:
    """Draws a task that is a plan: each subtask depends on some of those before it."""
    subtasks: list[SubTask] = []
    for index in range(draw(st.integers(1, max_size))):
        earlier = [subtask.id for subtask in subtasks]
        chosen = draw(st.lists(st.sampled_from(earlier), max_size=3, unique=True)) if earlier else []
        subtasks.append(step(f"s{index}", *chosen, partial_input=draw(st.booleans())))
    return task_of(*draw(st.permutations(subtasks)))
