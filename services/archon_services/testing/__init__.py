"""Meshes for tests: in the event loop of the test, whose clock the test moves, and of processes; a real etcd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archon.lazy_names import lazy_names
from archon_services.local_mesh.etcd_server import etcd_binary
from archon_services.testing.etcd import EtcdProcess, free_ports

if TYPE_CHECKING:
    from archon_services.testing.in_process import InProcessMesh
    from archon_services.testing.mesh import LocalMesh
    from archon_services.testing.mesh_faults import Fault
    from archon_services.testing.replay import assert_replays, replay_file

__all__ = [
    "EtcdProcess",
    "Fault",
    "InProcessMesh",
    "LocalMesh",
    "assert_replays",
    "etcd_binary",
    "free_ports",
    "replay_file",
]

# InProcessMesh replaces the clock of the process.
__getattr__ = lazy_names(
    __name__,
    {
        "Fault": "archon_services.testing.mesh_faults",
        "InProcessMesh": "archon_services.testing.in_process",
        "LocalMesh": "archon_services.testing.mesh",
        "assert_replays": "archon_services.testing.replay",
        "replay_file": "archon_services.testing.replay",
    },
)
