"""Tools by which a model exchanges messages with the other agents of its run."""

from archon_mesh.tools.messages.desk import MessageDesk, bind_message_desk
from archon_mesh.tools.messages.tools import (
    ReadMessagesTool,
    ReplyTool,
    RequestHelpTool,
    SendMessageTool,
    checked_topics,
    message_tools,
)

__all__ = [
    "MessageDesk",
    "ReadMessagesTool",
    "ReplyTool",
    "RequestHelpTool",
    "SendMessageTool",
    "bind_message_desk",
    "checked_topics",
    "message_tools",
]
