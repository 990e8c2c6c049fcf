"""Plain values that clients, agents and views of a run share: frozen, with the message of each as `proto`.

Names are imported on first use: agents do not wait for the imports of clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from archon.lazy_names import lazy_names

if TYPE_CHECKING:
    from archon.types.budget import Budget
    from archon.types.edge import Edge
    from archon.types.failure import Failure
    from archon.types.memory_ref import MemoryRef
    from archon.types.part import Part
    from archon.types.plan import Plan, PlanStep
    from archon.types.question_terms import QuestionTerms
    from archon.types.run import Run
    from archon.types.run_answer import RunAnswer
    from archon.types.run_event import RunEvent
    from archon.types.run_question import RunQuestion
    from archon.types.run_record import RunRecord
    from archon.types.run_task import RunTask
    from archon.types.task_ref import TaskRef
    from archon.types.task_state import TaskState
    from archon.types.usage import Usage

__all__ = [
    "Budget",
    "Edge",
    "Failure",
    "MemoryRef",
    "Part",
    "Plan",
    "PlanStep",
    "QuestionTerms",
    "Run",
    "RunAnswer",
    "RunEvent",
    "RunQuestion",
    "RunRecord",
    "RunTask",
    "TaskRef",
    "TaskState",
    "Usage",
]

_MODULES: Final = {
    "Budget": "archon.types.budget",
    "Edge": "archon.types.edge",
    "Failure": "archon.types.failure",
    "MemoryRef": "archon.types.memory_ref",
    "Part": "archon.types.part",
    "Plan": "archon.types.plan",
    "PlanStep": "archon.types.plan",
    "QuestionTerms": "archon.types.question_terms",
    "Run": "archon.types.run",
    "RunAnswer": "archon.types.run_answer",
    "RunEvent": "archon.types.run_event",
    "RunQuestion": "archon.types.run_question",
    "RunRecord": "archon.types.run_record",
    "RunTask": "archon.types.run_task",
    "TaskRef": "archon.types.task_ref",
    "TaskState": "archon.types.task_state",
    "Usage": "archon.types.usage",
}

__getattr__ = lazy_names(__name__, _MODULES)
