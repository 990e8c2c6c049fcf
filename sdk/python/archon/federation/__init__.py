"""A role of this mesh whose tasks are runs of another mesh.

    gateway = MeshGateway("research", "research.example:7100", mesh_id="ours")
    server = gateway_server(gateway)

Each task is one run of the other mesh, which every attempt at the task finds again by its request id.
"""

from archon.federation.gateway import MeshGateway
from archon.federation.lineage import MESHES_KEY, PARENT_MESH_KEY, PARENT_RUN_KEY, PARENT_TASK_KEY
from archon.federation.other_mesh import RunChoice
from archon.federation.server import gateway_server
from archon.types.child_run import CHILD_MESH_KEY, CHILD_RUN_KEY

__all__ = [
    "CHILD_MESH_KEY",
    "CHILD_RUN_KEY",
    "MESHES_KEY",
    "PARENT_MESH_KEY",
    "PARENT_RUN_KEY",
    "PARENT_TASK_KEY",
    "MeshGateway",
    "RunChoice",
    "gateway_server",
]
