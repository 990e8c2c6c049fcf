"""What is deployed: registry, memory, orchestrator, the reference roles, and the command line."""
