"""Runs under way: decisions, appends, effects."""
