"""A run as its events tell it: states, attempts, questions, delegations, usage, and why tasks wait.

`RunView.apply` folds the events of a watch; `RunHandle.views` does it for a run that was submitted. A view has no clock
but the times of the events, and states facts: texts for people are the work of its readers.
"""

from archon.run_view.attempt import Attempt, Delegation, Outcome
from archon.run_view.message import MessageState, MessageView
from archon.run_view.question import Question
from archon.run_view.run import Claim, Pause, RunView
from archon.run_view.task import LastFailure, TaskView, Wait, WaitKind
from archon.types.failure import Failure
from archon.types.plan import Plan, PlanStep
from archon.types.resolution import Resolution, Vote
from archon.types.task_state import TaskState
from archon.types.usage import Usage

__all__ = [
    "Attempt",
    "Claim",
    "Delegation",
    "Failure",
    "LastFailure",
    "MessageState",
    "MessageView",
    "Outcome",
    "Pause",
    "Plan",
    "PlanStep",
    "Question",
    "Resolution",
    "RunView",
    "TaskState",
    "TaskView",
    "Usage",
    "Vote",
    "Wait",
    "WaitKind",
]
