"""Real servers for tests and for one machine, as child processes."""

from archon_services.local_mesh.etcd_server import EtcdProcess, etcd_binary

__all__ = ["EtcdProcess", "etcd_binary"]
