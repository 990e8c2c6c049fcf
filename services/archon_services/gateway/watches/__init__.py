"""Watches of the services of the mesh: one for all viewers of the same thing."""
