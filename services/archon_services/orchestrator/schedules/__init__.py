"""Schedules: their times, their fires, and the loop that submits a run for each fire."""

from archon_services.orchestrator.schedules.firing import ScheduleFiring
from archon_services.orchestrator.schedules.store import ScheduleStore

__all__ = ["ScheduleFiring", "ScheduleStore"]
