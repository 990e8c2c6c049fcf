"""Real etcd and meshes as child processes, for tests."""

from archon_services.local_mesh.etcd_server import etcd_binary
from archon_services.testing.etcd import EtcdProcess, free_ports

__all__ = ["EtcdProcess", "etcd_binary", "free_ports"]
