"""Folding: from an event to the next state of a run."""
