"""Shared memory: publishing answers from the outbox, recalling the answers of a session."""
