"""The script that Alembic runs for an upgrade, with the connection and version table that `migrations` passes."""

from __future__ import annotations

from alembic import context

context.configure(transactional_ddl=True, **context.config.attributes["archon"])
context.run_migrations()
