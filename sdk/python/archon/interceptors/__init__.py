"""Deadline, identity and errors of every call: interceptors of the client side, the guard of the server side."""

from archon.interceptors.client import client_interceptors, translated
from archon.interceptors.guard import GuardedServer, raw_messages

__all__ = ["GuardedServer", "client_interceptors", "raw_messages", "translated"]
