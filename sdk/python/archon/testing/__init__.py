"""Test doubles: a scripted agent, and an orchestrator that gives an agent tasks."""

from archon.testing.agent import Delayed, FakeAgent, Reply
from archon.testing.orchestrator import Delegation, FakeOrchestrator, TaskResult

__all__ = ["Delayed", "Delegation", "FakeAgent", "FakeOrchestrator", "Reply", "TaskResult"]
