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
from opentelemetry.trace import Span, SpanKind, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from typing_extensions import override

from archon import context
from archon.errors import ArchonError
from archon.telemetry import names, spans
from archon_mesh.agent.hooks.context import ModelParams
from archon_mesh.agent.hooks.middleware import Middleware, ModelCall, QueryCall, ToolRun
from archon_mesh.agent.hooks.span_content import input_messages, one_message, output_messages
from archon_mesh.agent.state.agent_state import AgentState, get_context
from archon_mesh.core.masking import masked_arguments
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm.base import ModelReply, Usage
from archon_mesh.tools.result import ToolResult

_W3C: Final = TraceContextTextMapPropagator()


class TracingMiddleware(Middleware):
    """Creates a span for each run of the agent and of its sub-agents, and for each model call and tool call.

    The outermost span continues the trace of the call being served, such as a task of the mesh. Calls made inside a
    span propagate it, to the memory service and to remote agents.

    With `content`, messages, arguments and results are recorded as attributes; they may be secret, and large. None
    leaves it to the variable OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT.
    """

    inherited = True

    def __init__(self, tracer: Tracer | None = None, *, content: bool | None = None) -> None:
        """`tracer` None uses the tracer provider that the process has when the first run begins."""
        self._tracer = tracer
        self._content = names.captures_content() if content is None else content

    @property
    def tracer(self) -> Tracer:
        """The tracer that creates the spans."""
        if self._tracer is None:
            self._tracer = spans.tracer() or trace.get_tracer(names.SCOPE)
        return self._tracer

    @override
    async def wrap_query(self, state: AgentState, message: str, call: QueryCall) -> str:
        attributes = {
            names.OPERATION_NAME: names.INVOKE_AGENT,
            names.AGENT_NAME: state.agent_name,
            names.AGENT_ID: state.agent_id,
            names.CONVERSATION_ID: state.thread_id,
            names.AGENT_RUN_ID: state.run_id,
            names.RUN_ID: context.current().run_id,
            names.TASK_ID: context.current().task_id,
        }
        served = spans.task_span()
        if served is not None and trace.get_current_span() is served:  # the task's span is its agent's
            served.set_attributes(_present(attributes))
            return await self._query(served, state, message, call)
        with self._span(f"{names.INVOKE_AGENT} {state.agent_name}", SpanKind.INTERNAL, attributes) as span:
            return await self._query(span, state, message, call)

    async def _query(self, span: Span, state: AgentState, message: str, call: QueryCall) -> str:
        if self._content:
            span.set_attribute(names.INPUT_MESSAGES, one_message("user", message))
        answer = await call()
        if self._content:
            span.set_attribute(names.OUTPUT_MESSAGES, one_message("assistant", answer))
        span.set_attribute(names.ITERATIONS, state.current_iteration)
        return answer

    @override
    async def wrap_model_call(self, params: ModelParams, call: ModelCall) -> ModelReply:
        client = get_context().agent.model
        model = client.model
        attributes = {
            names.OPERATION_NAME: names.CHAT,
            names.provider_name(): getattr(client, "provider", ""),
            names.REQUEST_MODEL: model,
            names.REQUEST_TEMPERATURE: params.temperature,
            names.REQUEST_MAX_TOKENS: params.max_tokens,
        }
        with self._span(f"{names.CHAT} {model}", SpanKind.CLIENT, attributes) as span:
            if self._content:
                span.set_attribute(names.INPUT_MESSAGES, input_messages(params.messages))
            reply = await call(params)
            span.set_attributes(
                {
                    names.RESPONSE_MODEL: reply.model,
                    names.FINISH_REASONS: [reply.finish_reason],
                    names.INPUT_TOKENS: reply.usage.input_tokens,
                    names.OUTPUT_TOKENS: reply.usage.output_tokens,
                    **_cache_counts(reply.usage),
                }
            )
            if self._content:
                span.set_attribute(names.OUTPUT_MESSAGES, output_messages(reply))
            return reply

    @override
    async def wrap_tool_call(self, tool_call: ToolCall, call: ToolRun) -> ToolResult:
        attributes = {
            names.OPERATION_NAME: names.EXECUTE_TOOL,
            names.TOOL_NAME: tool_call.name,
            names.TOOL_CALL_ID: tool_call.id,
            names.TOOL_TYPE: "agent" if tool_call.name in get_context().agent.sub_agents else "function",
        }
        with self._span(f"{names.EXECUTE_TOOL} {tool_call.name}", SpanKind.INTERNAL, attributes) as span:
            if self._content:
                span.set_attribute(names.TOOL_ARGUMENTS, masked_arguments(tool_call.arguments_json))
            result = await call()
            if self._content:
                span.set_attribute(names.TOOL_RESULT, result.text)
            if not result.ok:
                spans.fail(span, _error_type_of(result), result.error_message)
            return result

    @contextmanager
    def _span(self, name: str, kind: SpanKind, attributes: dict[str, Any]) -> Iterator[Span]:
        """Makes a span current within the block, for outgoing gRPC calls too. An exception marks it as failed."""
        with self.tracer.start_as_current_span(
            name, _parent(), kind, _present(attributes), record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                with context.serving(_call_context_of_span()):
                    yield span
            except BaseException as error:
                spans.fail(span, error.reason if isinstance(error, ArchonError) else type(error).__name__, str(error))
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


def _cache_counts(usage: Usage) -> dict[str, int]:
    counts = {names.CACHED_TOKENS: usage.cached_input_tokens, names.CACHE_WRITE_TOKENS: usage.cache_write_tokens}
    return {name: count for name, count in counts.items() if count}


def _present(attributes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in attributes.items() if value not in (None, "")}
