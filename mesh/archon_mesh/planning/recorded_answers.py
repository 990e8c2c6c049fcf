"""The answers of people to a planner, kept in the journal of its plan: nothing is asked again after a restart.

The run engine has questions of its own, whose answers are events. They are not used here: a plan that a person approves
is checked by the engine anew, by the roles and tools of a mesh that the run lists, while a plan in a process was
checked by its planner, whose tools no run knows; and a planner in a process asks while it makes a plan, with its
conversation with the model in hand, where one of the mesh ends its attempt and is called again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from archon_mesh.engine.plan import Task
from archon_mesh.planning.planner import Approve, Clarify
from archon_mesh.planning.records import PlanRecords, plan_from_values, plan_to_values

_MADE: Final = ("id", "status", "result")
"""The fields that may differ in two plans that are the same to a person."""


class RecordedAnswers:
    """Asks people with the functions of a caller, unless the journal has the answer. `stage` returns the number of the
    plan in force: the same question may have another answer later."""

    def __init__(self, records: PlanRecords, stage: Callable[[], int]) -> None:
        self._records = records
        self._stage = stage
        self._known = dict(records.stored.answers)

    def approving(self, approve: Approve) -> Approve:
        """Returns a function that approves plans as `approve` does."""

        async def recorded(task: Task) -> bool | Task:
            key = self._key("approve", _digest(task))
            if key in self._known:
                known = self._known[key]
                return plan_from_values(known) if isinstance(known, dict) else known is True
            answer = await approve(task)
            stored = plan_to_values(answer) if isinstance(answer, Task) else answer is True
            self._records.add_answer(key, stored)
            return answer

        return recorded

    def clarifying(self, clarify: Clarify) -> Clarify:
        """Returns a function that answers questions as `clarify` does."""

        async def recorded(question: str) -> str:
            key = self._key("clarify", question)
            if key in self._known:
                return str(self._known[key])
            answer = await clarify(question)
            self._records.add_answer(key, answer)
            return answer

        return recorded

    def _key(self, kind: str, text: str) -> str:
        return json.dumps([kind, self._stage(), text])


def _digest(task: Task) -> str:
    values: dict[str, Any] = plan_to_values(task)
    steps = [{name: value for name, value in step.items() if name not in _MADE[1:]} for step in values["subtasks"]]
    shown = {name: value for name, value in values.items() if name not in _MADE} | {"subtasks": steps}
    return sha256(json.dumps(shown, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
