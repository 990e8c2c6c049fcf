"""Plain values that clients, agents and views of a run share: frozen, with the message of each as `proto`.

Names are imported on first use: agents do not wait for the imports of clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from archon.lazy_names import lazy_names

if TYPE_CHECKING:
    from archon.types.bid import Bid
    from archon.types.breakpoint import RunBreakpoint, UnheldTask
    from archon.types.budget import Budget
    from archon.types.child_run import ChildRun
    from archon.types.edge import Edge
    from archon.types.failure import Failure
    from archon.types.forked_task import ForkDecision, ForkedTask, ForkPreview
    from archon.types.hook import Hook, HookDelivery
    from archon.types.instance_metrics import InstanceMetrics
    from archon.types.learned_version import LearnedVersion, LearnedWeight
    from archon.types.memory_ref import MemoryRef
    from archon.types.message import Message
    from archon.types.message_content import (
        ContextRequest,
        ErrorReport,
        HelpRequest,
        InformationShare,
        MessageContent,
        Notification,
        StatusUpdate,
        TaskRequest,
        TaskResponse,
    )
    from archon.types.message_type import MessageType
    from archon.types.part import Part
    from archon.types.plan import Plan, PlanStep
    from archon.types.question_terms import QuestionTerms
    from archon.types.quota_use import QuotaCount, QuotaUse
    from archon.types.resolution import Resolution, Vote
    from archon.types.run import Run
    from archon.types.run_answer import RunAnswer
    from archon.types.run_event import RunEvent
    from archon.types.run_question import RunQuestion
    from archon.types.run_rating import RunRating
    from archon.types.run_record import RunRecord
    from archon.types.run_task import RunTask
    from archon.types.schedule import Schedule, ScheduleFire
    from archon.types.task_ref import TaskRef
    from archon.types.task_state import TaskState
    from archon.types.usage import Usage
    from archon.types.verdict import Verdict

__all__ = [
    "Bid",
    "Budget",
    "ChildRun",
    "ContextRequest",
    "Edge",
    "ErrorReport",
    "Failure",
    "ForkDecision",
    "ForkPreview",
    "ForkedTask",
    "HelpRequest",
    "Hook",
    "HookDelivery",
    "InformationShare",
    "InstanceMetrics",
    "LearnedVersion",
    "LearnedWeight",
    "MemoryRef",
    "Message",
    "MessageContent",
    "MessageType",
    "Notification",
    "Part",
    "Plan",
    "PlanStep",
    "QuestionTerms",
    "QuotaCount",
    "QuotaUse",
    "Resolution",
    "Run",
    "RunAnswer",
    "RunBreakpoint",
    "RunEvent",
    "RunQuestion",
    "RunRating",
    "RunRecord",
    "RunTask",
    "Schedule",
    "ScheduleFire",
    "StatusUpdate",
    "TaskRef",
    "TaskRequest",
    "TaskResponse",
    "TaskState",
    "UnheldTask",
    "Usage",
    "Verdict",
    "Vote",
]

_MODULES: Final = {
    "Bid": "archon.types.bid",
    "Budget": "archon.types.budget",
    "ChildRun": "archon.types.child_run",
    "ContextRequest": "archon.types.message_content",
    "Edge": "archon.types.edge",
    "ErrorReport": "archon.types.message_content",
    "Failure": "archon.types.failure",
    "ForkDecision": "archon.types.forked_task",
    "ForkPreview": "archon.types.forked_task",
    "ForkedTask": "archon.types.forked_task",
    "HelpRequest": "archon.types.message_content",
    "InformationShare": "archon.types.message_content",
    "InstanceMetrics": "archon.types.instance_metrics",
    "LearnedVersion": "archon.types.learned_version",
    "LearnedWeight": "archon.types.learned_version",
    "MemoryRef": "archon.types.memory_ref",
    "Message": "archon.types.message",
    "MessageContent": "archon.types.message_content",
    "MessageType": "archon.types.message_type",
    "Notification": "archon.types.message_content",
    "Part": "archon.types.part",
    "Plan": "archon.types.plan",
    "PlanStep": "archon.types.plan",
    "QuotaCount": "archon.types.quota_use",
    "QuotaUse": "archon.types.quota_use",
    "QuestionTerms": "archon.types.question_terms",
    "Resolution": "archon.types.resolution",
    "Run": "archon.types.run",
    "RunAnswer": "archon.types.run_answer",
    "RunBreakpoint": "archon.types.breakpoint",
    "RunEvent": "archon.types.run_event",
    "RunMark": "archon.types.run_mark",
    "RunQuestion": "archon.types.run_question",
    "RunRating": "archon.types.run_rating",
    "RunRecord": "archon.types.run_record",
    "RunTask": "archon.types.run_task",
    "Hook": "archon.types.hook",
    "HookDelivery": "archon.types.hook",
    "Schedule": "archon.types.schedule",
    "ScheduleFire": "archon.types.schedule",
    "StatusUpdate": "archon.types.message_content",
    "TaskRef": "archon.types.task_ref",
    "TaskRequest": "archon.types.message_content",
    "TaskResponse": "archon.types.message_content",
    "TaskState": "archon.types.task_state",
    "UnheldTask": "archon.types.breakpoint",
    "Usage": "archon.types.usage",
    "Verdict": "archon.types.verdict",
    "Vote": "archon.types.resolution",
}

__getattr__ = lazy_names(__name__, _MODULES)
