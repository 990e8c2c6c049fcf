"""The reference roles: two in Python, two in YAML."""
