"""Shared memory: publishing answers from the outbox, recalling what a session knows."""
