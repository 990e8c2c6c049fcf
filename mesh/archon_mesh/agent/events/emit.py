"""The events of one run as they are emitted: a message piece by piece, a tool call and what it came to. For runs here
and for those of roles elsewhere in the mesh: a front end can't tell them apart."""

from __future__ import annotations

from typing import Any, Final

from archon_mesh.agent.events import types as events
from archon_mesh.agent.events.types import Emitter
from archon_mesh.agent.state.agent_state import AgentState, new_id
from archon_mesh.tools.image import Image

TEXT: Final = (events.TextMessageStart, events.TextMessageContent, events.TextMessageEnd)
THINKING: Final = (
    events.ThinkingTextMessageStart,
    events.ThinkingTextMessageContent,
    events.ThinkingTextMessageEnd,
)


def of_run(state: AgentState) -> dict[str, Any]:
    """What every event says of its run."""
    return {
        "run_id": state.run_id,
        "root_run_id": state.root_run_id,
        "parent_run_id": state.parent_run_id,
        "agent_name": state.agent_name,
    }


class Message:
    """A message of a run, begun with its first piece; `kinds` are those of its start, its content and its end."""

    def __init__(self, emitter: Emitter, about: dict[str, Any], kinds: tuple[Any, Any, Any] = TEXT) -> None:
        self._emitter = emitter
        self._about = about
        self._start, self._content, self._end = kinds
        self._id = ""
        self.begun = False
        """Whether there has been anything of it."""

    async def text(self, piece: str) -> None:
        """More of it; where nobody listens, nothing."""
        if not self._emitter.listeners or not piece:
            return
        if not self._id:
            self._id, self.begun = new_id(), True
            await self._emitter.emit(self._start(message_id=self._id, **self._about))
        await self._emitter.emit(self._content(message_id=self._id, delta=piece, **self._about))

    async def end(self) -> None:
        """What comes next is another message."""
        if self._id:
            ended, self._id = self._id, ""
            await self._emitter.emit(self._end(message_id=ended, **self._about))


async def tell_call(emitter: Emitter, about: dict[str, Any], call_id: str, name: str, arguments_json: str) -> None:
    """A tool is called."""
    if not emitter.listeners:
        return
    call = {"tool_call_id": call_id, **about}
    await emitter.emit(events.ToolCallStart(tool_call_name=name, **call))
    if arguments_json:
        await emitter.emit(events.ToolCallArgs(delta=arguments_json, **call))
    await emitter.emit(events.ToolCallEnd(**call))


async def tell_result(
    emitter: Emitter, about: dict[str, Any], call_id: str, text: str, status: str, content: object = None
) -> None:
    """It has answered; images in its content are shown."""
    if not emitter.listeners:
        return
    told = events.ToolCallResult(tool_call_id=call_id, message_id=new_id(), content=text, status=status, **about)
    await emitter.emit(told)
    for image in Image.among(content):
        name = new_id()
        await emitter.emit(events.ImageMessageStart(message_id=name, media_type=image.media_type, **about))
        await emitter.emit(events.ImageMessageContent(message_id=name, delta=image.data, **about))
        await emitter.emit(events.ImageMessageEnd(message_id=name, **about))
