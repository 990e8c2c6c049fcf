"""A mesh on one machine: supervises etcd, the services and the agents. Has no user interface."""

from archon_services.local_mesh.control import send_command
from archon_services.local_mesh.detached import spawn, stop_mesh, wait_ready
from archon_services.local_mesh.errors import AlreadyUp, StartFailed
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.options import ROLES, SERVICES, MeshOptions
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
    "live_state",
    "make_plan",
    "read_state",
    "send_command",
    "spawn",
    "stop_mesh",
    "wait_ready",
]
