"""Model clients: one interface, and what stands behind it."""

from archon_mesh.llm.base import (
    ModelChunk,
    ModelClient,
    ModelReply,
    ModelRequest,
    ToolCallDelta,
    ToolSpec,
    Usage,
    estimate_input,
    estimate_tokens,
)
from archon_mesh.llm.create import create_model

__all__ = [
    "ModelChunk",
    "ModelClient",
    "ModelReply",
    "ModelRequest",
    "ToolCallDelta",
    "ToolSpec",
    "Usage",
    "create_model",
    "estimate_input",
    "estimate_tokens",
]
