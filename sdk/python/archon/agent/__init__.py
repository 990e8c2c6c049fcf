"""Serve a role as a member of the mesh."""

from archon.agent.bid_request import BidRequest
from archon.agent.direct_messages import DirectMessages
from archon.agent.facts import Contradiction, Fact, Facts, Finding
from archon.agent.plan_request import PlanRequest, PlanTarget
from archon.agent.question import GivenAnswer, Question
from archon.agent.records import CallRecord
from archon.agent.server import AgentServer
from archon.agent.settings import AgentSettings
from archon.agent.shared import SharedChange, SharedContext, SharedValue
from archon.agent.task import TaskContext
from archon.agent.tool_health import ToolHealth
from archon.agent.values import (
    Answer,
    ContextItem,
    Delegated,
    DelegationTarget,
    HistoryMessage,
    Item,
    TaskRejected,
    TraceContext,
)
from archon.agent.work_item import WorkItem, WorkResults
from archon.agent.work_list import WorkList
from archon.types.question_terms import QuestionTerms

__all__ = [
    "AgentServer",
    "AgentSettings",
    "Answer",
    "BidRequest",
    "CallRecord",
    "ContextItem",
    "Contradiction",
    "Delegated",
    "DelegationTarget",
    "DirectMessages",
    "Fact",
    "Facts",
    "Finding",
    "GivenAnswer",
    "HistoryMessage",
    "Item",
    "PlanRequest",
    "PlanTarget",
    "Question",
    "QuestionTerms",
    "SharedChange",
    "SharedContext",
    "SharedValue",
    "TaskContext",
    "TaskRejected",
    "ToolHealth",
    "TraceContext",
    "WorkItem",
    "WorkList",
    "WorkResults",
]
