"""Real servers for tests and for one machine, as child processes."""

from archon_services.testing.etcd import EtcdProcess, etcd_binary

__all__ = ["EtcdProcess", "etcd_binary"]
