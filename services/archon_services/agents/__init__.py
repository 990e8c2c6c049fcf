"""The reference roles, built on the public API alone, and the service that serves a role."""
