"""Dispatch: from the state of a run to the frames that its agents receive. Pure."""
