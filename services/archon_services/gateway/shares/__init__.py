"""Read-only links to a run, for people without credentials of the mesh."""
