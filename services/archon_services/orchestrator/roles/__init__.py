"""Roles and instances, as the registry reports them."""
