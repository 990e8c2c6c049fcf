"""Model clients: one interface for the offline model and the endpoints of providers."""

from archon_mesh.core.messages import ChatMessage, ToolCall
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
from archon_mesh.llm.create import ModelSpec, create_model
from archon_mesh.llm.media import MediaProfile, load_file
from archon_mesh.llm.scripted import ScriptedModel
from archon_mesh.llm.text_format import (
    ParsedReply,
    ParsingError,
    TextToolModel,
    extract_json_from_text,
    parse_llm_action_response,
)

__all__ = [
    "ChatMessage",
    "MediaProfile",
    "ModelChunk",
    "ModelClient",
    "ModelReply",
    "ModelRequest",
    "ModelSpec",
    "ParsedReply",
    "ParsingError",
    "ScriptedModel",
    "TextToolModel",
    "ToolCall",
    "ToolCallDelta",
    "ToolSpec",
    "Usage",
    "create_model",
    "estimate_input",
    "estimate_tokens",
    "extract_json_from_text",
    "load_file",
    "parse_llm_action_response",
]
