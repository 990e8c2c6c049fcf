"""Adds entries of the audit log within a transaction of the SQLite journal."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from archon_services.common.audit_entry import AuditRow

_ADD: Final = "INSERT INTO audit (chain, tenant, time, identity, action, run_id, data) VALUES (?, ?, ?, ?, ?, ?, ?)"


def insert_audit(db: sqlite3.Connection, rows: Sequence[AuditRow]) -> None:
    """Stores entries within a transaction."""
    for row in rows:
        db.execute(_ADD, (row.owner, row.tenant, row.time, row.identity, row.action, row.run_id, row.data))
