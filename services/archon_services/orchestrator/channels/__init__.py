"""Channels by which people learn that a run asks them: webhooks and mail."""

from archon_services.orchestrator.channels.notice import Channel, Notice, notices_of
from archon_services.orchestrator.channels.notifier import Notifier

__all__ = ["Channel", "Notice", "Notifier", "notices_of"]
