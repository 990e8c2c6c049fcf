"""A hook's view of the run, and the model request that hooks may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archon_mesh.agent.hooks.points import HookEvent
from archon_mesh.agent.state.agent_state import AgentState
from archon_mesh.agent.state.history import HistoryList
from archon_mesh.agent.state.running_agent import RunningAgent
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm.base import CALL_TIMEOUT, IDLE_TIMEOUT, ModelReply, ModelRequest, ToolCallDelta, ToolSpec, Usage
from archon_mesh.llm.exchanges import Exchange, SentRequest
from archon_mesh.tools.result import ToolResult


@dataclass(frozen=True, slots=True)
class ModelTry:
    """One try of a model call. `started` is in seconds since the Unix epoch, `seconds` its duration.

    A try that succeeded has a reply; one that failed has an error, and in `text` the part that was streamed. `usage` is
    the reply's, or an estimate if the model had begun to reply; None if it had not. `exchanges` are the requests and
    replies of a client that rewrites requests; the last one has ended as the try. `sent` is the last request to the
    provider; None if none was sent over HTTP.
    """

    model: str
    request: ModelRequest
    started: float
    seconds: float
    reply: ModelReply | None = None
    error: BaseException | None = None
    text: str = ""
    usage: Usage | None = None
    exchanges: Sequence[Exchange] = ()
    sent: SentRequest | None = None


@dataclass(slots=True)
class ModelParams:
    """The parameters of one model call. `messages` belong to this call; changes do not reach the history.

    `timeout`, `idle_timeout` and `first_token_timeout` are as in the request. `retries` is how often the call is made
    again after an error that may pass. `is_json` and `output_schema` are as in the request. `tries` are the tries that
    were made, in order.
    """

    messages: list[ChatMessage]
    tools: Sequence[ToolSpec] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    timeout: float = CALL_TIMEOUT
    retries: int = 0
    idle_timeout: float = IDLE_TIMEOUT
    is_json: bool = False
    first_token_timeout: float | None = None
    output_schema: Mapping[str, Any] | None = None
    tries: list[ModelTry] = field(default_factory=list)

    def spent(self, since: int = 0) -> Usage:
        """Returns the usage of the tries from number `since` on, of those that failed too."""
        return sum((made.usage for made in self.tries[since:] if made.usage is not None), Usage(0, 0))

    def request(self) -> ModelRequest:
        """Returns the immutable request for a model client."""
        return ModelRequest(
            tuple(self.messages),
            tuple(self.tools),
            self.temperature,
            self.max_tokens,
            self.timeout,
            self.idle_timeout,
            self.is_json,
            self.first_token_timeout,
            self.output_schema,
        )


@dataclass(slots=True)
class HookContext:
    """The input of a hook. Fields from `params` on are set only at the points that concern them.

    `value` is the current text: the query, the answer, or a chunk of text. `message` is the assistant's.
    `tool_call_delta` and `thinking_delta` are set at `stream_chunk` if the chunk is a piece of a tool call or of the
    model's thinking; its text is empty then.
    """

    event: HookEvent
    agent: RunningAgent
    state: AgentState
    value: str = ""
    params: ModelParams | None = None
    message: ChatMessage | None = None
    tool_call: ToolCall | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    tool_result: ToolResult | None = None
    tool_call_delta: ToolCallDelta | None = None
    thinking_delta: str = ""
    error: BaseException | None = None

    @property
    def assistant_message(self) -> ChatMessage | None:
        """The model's message, at the points that concern one; the same as `message`."""
        return self.message

    @property
    def conversation_history(self) -> HistoryList:
        """The agent's own messages so far; the same as `state.history`."""
        return self.state.history

    @property
    def iteration(self) -> int:
        """The current iteration, from 1; 0 before the loop."""
        return self.state.current_iteration
