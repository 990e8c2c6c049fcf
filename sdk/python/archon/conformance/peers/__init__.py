"""The peers of a subject: orchestrators, a registry and a memory service that do what a scenario says."""
