"""Reference roles, one file each, on the public API alone. Run one as `python -m archon_services.agents ROLE`."""
