"""Tools shared across agents: lend them to other agents, find theirs, and execute those where they live."""

from archon.tools.caller.client import ToolClient
from archon.tools.caller.find import FoundTool, find_tools
from archon.tools.caller.leased_tool import LeasedTool
from archon.tools.owner.shared_tools import LeaseView, SharedTools
from archon.tools.result import SharedToolResult, SharedToolStatus
from archon.tools.shared_tool import Execute, SharedTool, SharedToolCall

__all__ = [
    "Execute",
    "FoundTool",
    "LeaseView",
    "LeasedTool",
    "SharedTool",
    "SharedToolCall",
    "SharedToolResult",
    "SharedToolStatus",
    "SharedTools",
    "ToolClient",
    "find_tools",
]
