"""The state of the registry and its graph of roles. Pure."""
