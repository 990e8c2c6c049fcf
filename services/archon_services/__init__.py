"""The deployed programs: registry, memory, orchestrator, the reference roles, and the command line."""
