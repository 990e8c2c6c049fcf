"""Test doubles: a scripted agent, and the orchestrator's end of an agent's session."""

from archon.testing.agent import Delayed, FakeAgent, Reply
from archon.testing.orchestrator import FakeOrchestrator

__all__ = ["Delayed", "FakeAgent", "FakeOrchestrator", "Reply"]
