"""The peers of a subject: orchestrators, a registry and a memory service that follow a scenario."""
