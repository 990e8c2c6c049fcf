"""Middleware: the base class of objects that register several hooks at once."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass
from typing import Any, ClassVar

from archon_mesh.agent.hooks.context import HookContext, ModelParams
from archon_mesh.agent.hooks.points import HookEvent
from archon_mesh.agent.state.agent_state import AgentState
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm.base import ModelReply, ToolCallDelta
from archon_mesh.tools.result import ToolResult

ModelCall = Callable[[ModelParams], Awaitable[ModelReply]]
QueryCall = Callable[[], Awaitable[str]]
ToolRun = Callable[[], Awaitable[ToolResult]]
Hook = Callable[[HookContext], Any]


class StreamChunk(str):
    """A chunk of a reply: its text, which is empty if the chunk is a piece of a tool call or of thinking."""

    tool_call_delta: ToolCallDelta | None = None
    thinking_delta: str = ""

    @classmethod
    def of_tool_call(cls, delta: ToolCallDelta) -> StreamChunk:
        """Returns the chunk for a piece of a tool call."""
        chunk = cls()
        chunk.tool_call_delta = delta
        return chunk

    @classmethod
    def of_thinking(cls, text: str) -> StreamChunk:
        """Returns the chunk for a piece of the model's thinking."""
        chunk = cls()
        chunk.thinking_delta = text
        return chunk

    @property
    def is_text(self) -> bool:
        """True if the chunk is a piece of the reply's text."""
        return self.tool_call_delta is None and not self.thinking_delta


class Middleware:
    """Derive from this class and override the methods that you need, sync or async; the others cost nothing.

    Each method except the last five takes a HookContext and returns an Outcome (`go_on`, `retry`, `stop`, `fail`), or
    None to continue. Hooks run in the order of registration, both before and after a step. The first hook that does
    not continue decides; a value that a hook continues with is passed to the next hook. A hook that raises fails the
    run with an error that names the hook.
    """

    inherited = False
    """If True, sub-agents that have no middleware of the same class use this one too."""

    imported_params: ClassVar[Set[str]] = frozenset()
    """Arguments of the constructor that are import paths, `module:name`, in YAML."""

    @property
    def name(self) -> str:
        """The name in error messages."""
        return type(self).__name__

    def query_start(self, hook: HookContext) -> Any: ...
    def query_end(self, hook: HookContext) -> Any: ...
    def before_agent(self, hook: HookContext) -> Any: ...
    def after_agent(self, hook: HookContext) -> Any: ...
    def before_model(self, hook: HookContext) -> Any: ...
    def after_model(self, hook: HookContext) -> Any: ...
    def before_tool(self, hook: HookContext) -> Any: ...
    def after_tool(self, hook: HookContext) -> Any: ...
    def tool_error(self, hook: HookContext) -> Any: ...
    def before_final_response(self, hook: HookContext) -> Any: ...

    async def wrap_query(self, state: AgentState, message: str, call: QueryCall) -> str:
        """Wraps the whole run, including its other hooks. The first registered wrapper is the outermost."""
        return await call()

    async def wrap_model_call(self, params: ModelParams, call: ModelCall) -> ModelReply:
        """Wraps a model call. The first registered wrapper is the outermost."""
        return await call(params)

    async def wrap_tool_call(self, tool_call: ToolCall, call: ToolRun) -> ToolResult:
        """Wraps a call of a tool or sub-agent, including its hooks. The first registered wrapper is the outermost."""
        return await call()

    def stream_chunk(self, chunk: StreamChunk, params: ModelParams) -> Any:
        """Sees a chunk of the reply before any event handler. Returns a replacement text, or None.

        A piece of a tool call or of thinking has no text, and no replacement.
        """

    async def close(self) -> None:
        """Releases the middleware's resources, when its agent is closed. It can be used again. Idempotent."""


@dataclass(frozen=True, slots=True)
class SingleHook:
    """One hook for one event; `name` appears in error messages."""

    event: HookEvent
    name: str
    hook: Hook


async def maybe_await(value: Any) -> Any:
    """Returns the value, awaited if it is awaitable."""
    return await value if inspect.isawaitable(value) else value
