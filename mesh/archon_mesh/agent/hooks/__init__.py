"""Hooks: the points at which an agent can be steered, and the middlewares that come with the framework."""
