"""Archon's Python SDK: clients of the mesh's services, and AgentServer to join the mesh.

Names are imported on first use, so that `import archon` is cheap.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from archon.lazy_names import lazy_names

if TYPE_CHECKING:
    from archon.agent import AgentServer, Answer, Question, TaskContext
    from archon.client import Client, RunHandle
    from archon.errors import ArchonError
    from archon.memory import MemoryGraphClient
    from archon.registry import Registration, RegistryClient

if os.environ.get("ARCHON_TLS"):
    # gRPC prints a line about each handshake that fails, and reads the variable when it is imported.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")

__all__ = [
    "AgentServer",
    "Answer",
    "ArchonError",
    "Client",
    "MemoryGraphClient",
    "Question",
    "Registration",
    "RegistryClient",
    "RunHandle",
    "TaskContext",
]

_MODULES: Final = {
    "AgentServer": "archon.agent",
    "Answer": "archon.agent",
    "ArchonError": "archon.errors",
    "Client": "archon.client",
    "MemoryGraphClient": "archon.memory",
    "Question": "archon.agent",
    "Registration": "archon.registry",
    "RegistryClient": "archon.registry",
    "RunHandle": "archon.client",
    "TaskContext": "archon.agent",
}

__getattr__ = lazy_names(__name__, _MODULES)
