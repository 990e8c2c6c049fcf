"""Deadline, identity and errors of every call: the guards of the client side and of the server side."""

from archon.interceptors.client import GuardedChannel, translated
from archon.interceptors.guard import GuardedServer, raw_messages

__all__ = ["GuardedChannel", "GuardedServer", "raw_messages", "translated"]
