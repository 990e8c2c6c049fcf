"""The span of one attempt at a task, as the agent that works on it sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archon import status
from archon.agent.task import TaskContext
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.telemetry import names, spans

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_FAILED = (common_pb2.TASK_STATE_FAILED, common_pb2.TASK_STATE_REJECTED, common_pb2.TASK_STATE_CANCELED)


def start_task_span(task: TaskContext) -> Span | None:
    """Starts the span, the current one for the rest of the asyncio task. Returns None if the process makes no
    spans."""
    if spans.tracer() is None:
        return None
    attributes = {
        names.OPERATION_NAME: names.INVOKE_AGENT,
        names.AGENT_NAME: task.role,
        names.RUN_ID: task.run_id,
        names.TASK_ID: task.task_id,
        names.TASK_ATTEMPT: task.attempt,
    }
    if task.conversation_id:
        attributes[names.CONVERSATION_ID] = task.conversation_id
    return spans.start_task_span(f"{names.INVOKE_AGENT} {task.role}", attributes)


def end_task_span(span: Span, result: agent_pb2.TaskResult) -> None:
    """Ends the span with the attempt's usage and outcome."""
    usage = result.usage
    if usage.model_calls:
        span.set_attribute(names.INPUT_TOKENS, usage.input_tokens)
        span.set_attribute(names.OUTPUT_TOKENS, usage.output_tokens)
    if usage.cached_input_tokens:
        span.set_attribute(names.CACHED_TOKENS, usage.cached_input_tokens)
    if usage.cache_write_tokens:
        span.set_attribute(names.CACHE_WRITE_TOKENS, usage.cache_write_tokens)
    if usage.cost_micro_usd:
        span.set_attribute(names.COST, usage.cost_micro_usd / 1e6)
    span.set_attribute(names.TASK_STATE, state_name(result.state))
    if result.state in _FAILED:
        error = status.from_failure(result.failure)
        spans.fail(span, error.reason, error.message)
    span.end()


def state_name(state: common_pb2.TaskState.ValueType) -> str:
    """Returns the name of a state in lower case, such as `completed`."""
    return common_pb2.TaskState.Name(state).removeprefix("TASK_STATE_").lower()
