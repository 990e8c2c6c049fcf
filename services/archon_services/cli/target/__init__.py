"""The mesh and the run that a command works on."""
