"""Hooks: the points at which an agent's run can be changed, and the built-in middlewares."""
