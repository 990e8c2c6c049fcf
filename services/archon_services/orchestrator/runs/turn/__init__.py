"""Decides about the inputs of a run: its next events, where its tasks are placed, and the step that stores it all."""
