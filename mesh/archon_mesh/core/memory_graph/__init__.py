"""The shared memory graph: the dependencies among roles, and their last answers."""

from archon_mesh.core.memory_graph.cycle import CycleError
from archon_mesh.core.memory_graph.export import to_dot, to_mermaid, to_text
from archon_mesh.core.memory_graph.graph import SharedMemoryGraph
from archon_mesh.core.memory_graph.svg import to_svg
from archon_mesh.core.memory_item import MemoryItem, PropagationPolicy

__all__ = [
    "CycleError",
    "MemoryItem",
    "PropagationPolicy",
    "SharedMemoryGraph",
    "to_dot",
    "to_mermaid",
    "to_svg",
    "to_text",
]
