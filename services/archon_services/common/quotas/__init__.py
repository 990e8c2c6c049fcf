"""Quotas of tenants and identities, as a file sets them."""

from archon_services.common.quotas.load import load_quotas
from archon_services.common.quotas.quota import DAY, EVERY_OTHER, Quota, Quotas

__all__ = ["DAY", "EVERY_OTHER", "Quota", "Quotas", "load_quotas"]
