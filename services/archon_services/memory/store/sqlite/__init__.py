"""The shared memory in a SQLite file."""
