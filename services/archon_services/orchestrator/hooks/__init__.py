"""Hooks: named triggers that submit a run for each signed webhook."""

from archon_services.orchestrator.hooks.delivery_log import DeliveryLog
from archon_services.orchestrator.hooks.secrets import SecretSealer
from archon_services.orchestrator.hooks.store import HookStore

__all__ = ["DeliveryLog", "HookStore", "SecretSealer"]
