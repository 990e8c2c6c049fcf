"""The schema of the PostgreSQL store: its migrations and its advisory locks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from archon_services.postgres.migrations import Schema

SCHEMA: Final = Schema(
    "archon_memory", folder=Path(__file__).parent / "migrations", head="0004", lock=0x6172_6368_6D65_6D6F
)

PUBLISH_LOCK: Final = f"SELECT pg_advisory_xact_lock({SCHEMA.lock + 1})"
"""Held until the transaction of a group of publishes ends. It excludes a transaction that outlived its connection."""

SERVICE_LOCK: Final = f"SELECT pg_try_advisory_lock({SCHEMA.lock + 2})"
"""Held by the session of the one memory service that uses the database."""

WORKING_LOCK: Final = f"SELECT pg_advisory_xact_lock({SCHEMA.lock + 3})"
"""As PUBLISH_LOCK, for writes to working memory."""
