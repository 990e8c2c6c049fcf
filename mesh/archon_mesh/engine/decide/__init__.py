"""Decisions: from an input and the state of a run to events."""
