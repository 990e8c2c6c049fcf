"""Sessions with agent instances: one stream per instance, many attempts on it."""

from archon_services.orchestrator.sessions.pool import SessionPool
from archon_services.orchestrator.sessions.session import Limits, Session

__all__ = ["Limits", "Session", "SessionPool"]
