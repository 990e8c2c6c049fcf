"""Quotas of tenants and identities, as a file sets them."""

from archon_services.common.quotas.quota import DAY, EVERY_OTHER, Quota, Quotas, load_quotas

__all__ = ["DAY", "EVERY_OTHER", "Quota", "Quotas", "load_quotas"]
