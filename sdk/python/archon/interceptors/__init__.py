"""What every call passes through, on both sides: deadline, identity, errors, guard."""

from archon.interceptors.client import client_interceptors, translated
from archon.interceptors.guard import GuardedServer, raw_messages

__all__ = ["GuardedServer", "client_interceptors", "raw_messages", "translated"]
