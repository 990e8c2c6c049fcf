"""Stores of the registry: etcd, and memory for tests."""
