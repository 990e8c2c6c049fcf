"""Retention: the details of ended runs are removed by rules, and the runs are deleted later."""

from archon_services.orchestrator.retention.load import load_retention
from archon_services.orchestrator.retention.rules import RetentionRules, default_rules
from archon_services.orchestrator.retention.sweep import PAGE, Retention

__all__ = ["PAGE", "Retention", "RetentionRules", "default_rules", "load_retention"]
