"""Roles of several tenants in one table: outside of the default tenant, the key of a role begins with its tenant.

No role name has a colon, so that a key belongs to one tenant, and roles of two tenants have no key in common.
"""

from __future__ import annotations

from archon.principal import DEFAULT_TENANT


def role_key(tenant: str, role: str) -> str:
    """Returns the key of a role of a tenant; an empty tenant is the default one."""
    return role if tenant in ("", DEFAULT_TENANT) else f"{tenant}:{role}"


def role_of(key: str) -> str:
    """Returns the name of the role with this key."""
    return key.rpartition(":")[2]


def tenant_of(key: str) -> str:
    """Returns the tenant of the role with this key."""
    return key.rpartition(":")[0] or DEFAULT_TENANT
