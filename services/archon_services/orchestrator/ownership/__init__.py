"""Ownership of runs: the lease of this process, takeover of runs without an owner, forwarded commands."""

from archon_services.orchestrator.ownership.lease import HeldRuns, OwnershipLimits
from archon_services.orchestrator.ownership.ownership import Ownership

__all__ = ["HeldRuns", "Ownership", "OwnershipLimits"]
