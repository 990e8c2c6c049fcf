"""`archon down`: ends the mesh."""

from __future__ import annotations


def down() -> None:
    """End the mesh of ARCHON_HOME, whoever started it. Data and logs stay."""
    from archon_services.local_mesh import Home, end_mesh

    home = Home.find()
    print(f"The mesh in {home.root} has ended." if end_mesh(home) else f"No mesh is up in {home.root}.")
