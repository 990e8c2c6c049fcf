"""Stores of the shared memory: SQLite and PostgreSQL."""
