"""Spans of an agent's run, after OpenTelemetry's semantic conventions for GenAI (agent, inference and tool spans).

Nothing is exported unless the process has a tracer provider: OpenTelemetry's SDK, configured in code or by
`opentelemetry-instrument`. https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from archon import context
from archon.errors import ArchonError
from archon_mesh.agent.hooks.middleware import Middleware, ModelCall, QueryCall, ToolRun
from archon_mesh.agent.loop.model_request import ModelParams
from archon_mesh.agent.state.agent_state import AgentState, get_context
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm.base import ModelReply
from archon_mesh.tools.result import ToolResult

_W3C: Final = TraceContextTextMapPropagator()


class TracingMiddleware(Middleware):
    """A span for each run of the agent and of the sub-agents below it, for each call of a model and of a tool. The
    outermost one continues the trace of the call that is served, such as a task of the mesh, and calls that are made
    within go on in it: the memory service, and roles elsewhere in the mesh.

    With `content`, what is said goes into attributes too: it may be secret, and large.
    """

    inherited = True

    def __init__(self, tracer: Tracer | None = None, *, content: bool = False) -> None:
        """`tracer` None: of the process's tracer provider, as it is when the first run begins."""
        self._tracer = tracer
        self._content = content

    @property
    def tracer(self) -> Tracer:
        """What makes the spans."""
        if self._tracer is None:
            self._tracer = trace.get_tracer("archon_mesh")
        return self._tracer

    async def wrap_query(self, state: AgentState, message: str, call: QueryCall) -> str:
        """The run's span."""
        said = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": state.agent_name,
            "gen_ai.agent.id": state.agent_id,
            "gen_ai.conversation.id": state.thread_id,
            "archon.agent.run_id": state.run_id,
            "archon.run_id": context.current().run_id,
            "archon.task_id": context.current().task_id,
        }
        with self._span(f"invoke_agent {state.agent_name}", SpanKind.INTERNAL, said) as span:
            self._say(span, "gen_ai.input.messages", message)
            answer = await call()
            self._say(span, "gen_ai.output.messages", answer)
            span.set_attribute("archon.agent.iterations", state.current_iteration)
            return answer

    async def wrap_model_call(self, params: ModelParams, call: ModelCall) -> ModelReply:
        """The call's span."""
        model = get_context().agent.models.client.model
        said = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": model,
            "gen_ai.request.temperature": params.temperature,
            "gen_ai.request.max_tokens": params.max_tokens,
        }
        with self._span(f"chat {model}", SpanKind.CLIENT, said) as span:
            reply = await call(params)
            span.set_attributes(
                {
                    "gen_ai.response.model": reply.model,
                    "gen_ai.response.finish_reasons": [reply.finish_reason],
                    "gen_ai.usage.input_tokens": reply.usage.input_tokens,
                    "gen_ai.usage.output_tokens": reply.usage.output_tokens,
                }
            )
            self._say(span, "gen_ai.output.messages", reply.text)
            return reply

    async def wrap_tool_call(self, tool_call: ToolCall, call: ToolRun) -> ToolResult:
        """The call's span: what the tool does is within it."""
        said = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool_call.name,
            "gen_ai.tool.call.id": tool_call.id,
            "gen_ai.tool.type": "agent" if tool_call.name in get_context().agent.sub_agents else "function",
        }
        with self._span(f"execute_tool {tool_call.name}", SpanKind.INTERNAL, said) as span:
            self._say(span, "gen_ai.tool.call.arguments", tool_call.arguments_json)
            result = await call()
            self._say(span, "gen_ai.tool.call.result", result.text)
            if not result.ok:
                error = result.metadata.get("error")
                _failed(span, error if isinstance(error, BaseException) else None, result.error_message)
            return result

    def _say(self, span: Span, key: str, text: str) -> None:
        if self._content:
            span.set_attribute(key, text)

    @contextmanager
    def _span(self, name: str, kind: SpanKind, said: dict[str, Any]) -> Iterator[Span]:
        """The current one within the block, for calls over the wire too; what is raised fails it."""
        known = {key: value for key, value in said.items() if value not in (None, "")}
        with self.tracer.start_as_current_span(
            name, _parent(), kind, known, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                with context.serving(_carried()):
                    yield span
            except BaseException as error:
                _failed(span, error, str(error))
                raise


def _parent() -> Context | None:
    """What is current; else the trace of the call that is served."""
    served = context.current()
    if trace.get_current_span().get_span_context().is_valid or not served.traceparent:
        return None
    return _W3C.extract({"traceparent": served.traceparent, "tracestate": served.tracestate})


def _carried() -> context.CallContext:
    """The call that is served, with the current span in place of where it came from."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    if not carrier:
        return context.current()
    return replace(context.current(), traceparent=carrier["traceparent"], tracestate=carrier.get("tracestate", ""))


def _failed(span: Span, error: BaseException | None, message: str) -> None:
    """As the conventions have it: the kind of the error is of few values, the message is the status's."""
    kind = error.reason if isinstance(error, ArchonError) else type(error).__name__ if error is not None else "_OTHER"
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, message))
