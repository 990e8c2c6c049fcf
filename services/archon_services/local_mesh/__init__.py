"""The mesh on one machine: a supervisor of etcd, the services and the agents, without any user interface."""

from archon_services.local_mesh.detached import end_mesh, spawn, wait_ready
from archon_services.local_mesh.errors import AlreadyUp, StartFailed
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.options import ROLES, SERVICES, MeshOptions, read_names, read_pairs
from archon_services.local_mesh.plan import Plan, ProcessSpec, make_plan
from archon_services.local_mesh.state import MeshState, ProcessState, live_state, read_state
from archon_services.local_mesh.supervisor import Supervisor

__all__ = [
    "ROLES",
    "SERVICES",
    "AlreadyUp",
    "Home",
    "MeshOptions",
    "MeshState",
    "Plan",
    "ProcessSpec",
    "ProcessState",
    "StartFailed",
    "Supervisor",
    "end_mesh",
    "live_state",
    "make_plan",
    "read_names",
    "read_pairs",
    "read_state",
    "spawn",
    "wait_ready",
]
