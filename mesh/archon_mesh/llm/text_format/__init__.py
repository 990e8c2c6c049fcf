"""The text format: calls of tools in plain text, for models without function calling."""

from archon_mesh.llm.text_format.calls import ParsedCall
from archon_mesh.llm.text_format.errors import ParsingError
from archon_mesh.llm.text_format.parse import ParsedReply, extract_json_from_text, parse_llm_action_response
from archon_mesh.llm.text_format.text_tool_model import TextToolModel

__all__ = [
    "ParsedCall",
    "ParsedReply",
    "ParsingError",
    "TextToolModel",
    "extract_json_from_text",
    "parse_llm_action_response",
]
