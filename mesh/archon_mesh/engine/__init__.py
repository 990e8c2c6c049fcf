"""Hosts of the run engine (`archon_mesh.core.run`)."""
