"""What Alembic runs for an upgrade: over the connection, and with the version table, that `migrations` hands it."""

from __future__ import annotations

from alembic import context

context.configure(transactional_ddl=True, **context.config.attributes["archon"])
context.run_migrations()
