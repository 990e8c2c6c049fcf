"""An agent elsewhere that speaks A2A, as a role of the mesh."""
