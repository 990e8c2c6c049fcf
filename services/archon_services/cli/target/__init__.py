"""The mesh and the run that a command is about."""
