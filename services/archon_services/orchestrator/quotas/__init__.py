"""Quotas of tenants and identities: daily counts, and the refusal of runs and streams above a limit."""

from archon_services.orchestrator.quotas.daily_counts import Counts, DailyCounts
from archon_services.orchestrator.quotas.upkeep import DailyCountsUpkeep
from archon_services.orchestrator.quotas.usage import Holder, QuotaUsage

__all__ = ["Counts", "DailyCounts", "DailyCountsUpkeep", "Holder", "QuotaUsage"]
