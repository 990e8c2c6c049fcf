"""Questions to a database as tools, which cannot change it."""

from archon_mesh.tools.builtin.sql.tools import SqlQuery, SqlTables

__all__ = ["SqlQuery", "SqlTables"]
