"""Tools: functions that a model can call."""

from archon_mesh.core.media import Audio, EmbeddedResource, Media
from archon_mesh.tools.credentials import Secret
from archon_mesh.tools.engine import ToolExecutionEngine
from archon_mesh.tools.errors import DuplicateTool, MissingCredentials
from archon_mesh.tools.function import FunctionTool, tool
from archon_mesh.tools.health import ToolHealth
from archon_mesh.tools.image import Image
from archon_mesh.tools.people import HumanApprovalTool, HumanGuidanceTool, HumanInputTool, ask_person
from archon_mesh.tools.permissions import ToolPermissions
from archon_mesh.tools.progress import tell_progress
from archon_mesh.tools.registry import ToolRegistry
from archon_mesh.tools.result import ToolOutcome, ToolResult, ToolResultStatus
from archon_mesh.tools.tool import Tool

__all__ = [
    "Audio",
    "DuplicateTool",
    "EmbeddedResource",
    "FunctionTool",
    "HumanApprovalTool",
    "HumanGuidanceTool",
    "HumanInputTool",
    "Image",
    "Media",
    "MissingCredentials",
    "Secret",
    "Tool",
    "ToolExecutionEngine",
    "ToolHealth",
    "ToolOutcome",
    "ToolPermissions",
    "ToolRegistry",
    "ToolResult",
    "ToolResultStatus",
    "ask_person",
    "tell_progress",
    "tool",
]
