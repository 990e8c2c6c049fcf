"""What an MCP client may use: tools that report and ask, resources, and a prompt.

cd examples && archon mcp office:offer
"""

from __future__ import annotations

from pathlib import Path

from archon_mesh.agent import Agent
from archon_mesh.tools import ask_person, tool
from archon_mesh.tools.mcp import McpOffer, ResourceFolder, log_to_client, prompt, report_progress, resource


@tool
async def book(room: str) -> str:
    """Books a room."""
    days = await ask_person("For how many days?")
    for day in range(1, int(days.text) + 1):
        await report_progress(day, int(days.text), f"day {day}")
    await log_to_client("info", f"{room} is booked")
    return f"{room} for {days.text} days"


@resource("room://{name}", complete={"name": ["blue", "green"]})
def room(name: str) -> dict[str, str]:
    """A room and its state."""
    return {"room": name, "state": "free"}


@prompt
def invite(event: str, guest: str = "everybody") -> str:
    """Writes an invitation."""
    return f"Write an invitation of {guest} to: {event}."


DOCUMENTS = ResourceFolder("docs://", Path(__file__).parent / "documents")

offer = McpOffer(Agent("office", tools=[book]), resources=[room, DOCUMENTS], prompts=[invite])
