"""OpenTelemetry spans of an agent's run, following the semantic conventions for GenAI (agent, inference, tool spans).

Nothing is exported unless the process has a tracer provider: the OpenTelemetry SDK, configured in code or by
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
from typing_extensions import override

from archon import context
from archon.errors import ArchonError
from archon_mesh.agent.hooks.context import ModelParams
from archon_mesh.agent.hooks.middleware import Middleware, ModelCall, QueryCall, ToolRun
from archon_mesh.agent.state.agent_state import AgentState, get_context
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm.base import ModelReply
from archon_mesh.tools.result import ToolResult

_W3C: Final = TraceContextTextMapPropagator()


class TracingMiddleware(Middleware):
    """Creates a span for each run of the agent and of its sub-agents, and for each model call and tool call.

    The outermost span continues the trace of the call being served, such as a task of the mesh. Calls made inside a
    span propagate it, to the memory service and to remote agents.

    With `content`, messages, arguments and results are recorded as attributes; they may be secret, and large.
    """

    inherited = True

    def __init__(self, tracer: Tracer | None = None, *, content: bool = False) -> None:
        """`tracer` None uses the tracer provider that the process has when the first run begins."""
        self._tracer = tracer
        self._content = content

    @property
    def tracer(self) -> Tracer:
        """The tracer that creates the spans."""
        if self._tracer is None:
            self._tracer = trace.get_tracer("archon_mesh")
        return self._tracer

    @override
    async def wrap_query(self, state: AgentState, message: str, call: QueryCall) -> str:
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": state.agent_name,
            "gen_ai.agent.id": state.agent_id,
            "gen_ai.conversation.id": state.thread_id,
            "archon.agent.run_id": state.run_id,
            "archon.run_id": context.current().run_id,
            "archon.task_id": context.current().task_id,
        }
        with self._span(f"invoke_agent {state.agent_name}", SpanKind.INTERNAL, attributes) as span:
            self._record_content(span, "gen_ai.input.messages", message)
            answer = await call()
            self._record_content(span, "gen_ai.output.messages", answer)
            span.set_attribute("archon.agent.iterations", state.current_iteration)
            return answer

    @override
    async def wrap_model_call(self, params: ModelParams, call: ModelCall) -> ModelReply:
        model = get_context().agent.model.model
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": model,
            "gen_ai.request.temperature": params.temperature,
            "gen_ai.request.max_tokens": params.max_tokens,
        }
        with self._span(f"chat {model}", SpanKind.CLIENT, attributes) as span:
            reply = await call(params)
            span.set_attributes(
                {
                    "gen_ai.response.model": reply.model,
                    "gen_ai.response.finish_reasons": [reply.finish_reason],
                    "gen_ai.usage.input_tokens": reply.usage.input_tokens,
                    "gen_ai.usage.output_tokens": reply.usage.output_tokens,
                }
            )
            self._record_content(span, "gen_ai.output.messages", reply.text)
            return reply

    @override
    async def wrap_tool_call(self, tool_call: ToolCall, call: ToolRun) -> ToolResult:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool_call.name,
            "gen_ai.tool.call.id": tool_call.id,
            "gen_ai.tool.type": "agent" if tool_call.name in get_context().agent.sub_agents else "function",
        }
        with self._span(f"execute_tool {tool_call.name}", SpanKind.INTERNAL, attributes) as span:
            self._record_content(span, "gen_ai.tool.call.arguments", tool_call.arguments_json)
            result = await call()
            self._record_content(span, "gen_ai.tool.call.result", result.text)
            if not result.ok:
                _record_failure(span, _error_type_of(result), result.error_message)
            return result

    def _record_content(self, span: Span, key: str, text: str) -> None:
        if self._content:
            span.set_attribute(key, text)

    @contextmanager
    def _span(self, name: str, kind: SpanKind, attributes: dict[str, Any]) -> Iterator[Span]:
        """Makes a span current within the block, for outgoing gRPC calls too. An exception marks it as failed."""
        present = {key: value for key, value in attributes.items() if value not in (None, "")}
        with self.tracer.start_as_current_span(
            name, _parent(), kind, present, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                with context.serving(_call_context_of_span()):
                    yield span
            except BaseException as error:
                _record_failure(
                    span, error.reason if isinstance(error, ArchonError) else type(error).__name__, str(error)
                )
                raise


def _parent() -> Context | None:
    """Returns None if a span is current; otherwise the trace context of the call being served."""
    served = context.current()
    if trace.get_current_span().get_span_context().is_valid or not served.traceparent:
        return None
    return _W3C.extract({"traceparent": served.traceparent, "tracestate": served.tracestate})


def _call_context_of_span() -> context.CallContext:
    """Returns the context of the call being served, with the current span as the trace parent."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    if not carrier:
        return context.current()
    return replace(context.current(), traceparent=carrier["traceparent"], tracestate=carrier.get("tracestate", ""))


def _error_type_of(result: ToolResult) -> str:
    """Returns the reason of a failed call, or its kind if the tool raised an exception without a reason."""
    reason = str(result.metadata.get("reason", "UNKNOWN"))
    return reason if reason != "UNKNOWN" else str(result.metadata.get("kind", "_OTHER"))


def _record_failure(span: Span, error_type: str, message: str) -> None:
    """Sets `error.type`, which the conventions want to be of low cardinality, and the message as the span's status."""
    span.set_attribute("error.type", error_type)
    span.set_status(Status(StatusCode.ERROR, message))
