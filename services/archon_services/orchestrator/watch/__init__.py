"""Watches: fan-out of events to watchers, and forwarding between replicas."""
