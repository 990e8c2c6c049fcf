"""`archon down`: stops the mesh."""

from __future__ import annotations


def down() -> None:
    """Stop the mesh in ARCHON_HOME. Data and logs are kept."""
    from archon_services.local_mesh import Home, stop_mesh

    home = Home.find()
    print(f"Stopped the mesh in {home.root}." if stop_mesh(home) else f"No mesh is running in {home.root}.")
