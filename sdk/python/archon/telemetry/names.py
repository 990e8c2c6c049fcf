"""The names of spans and attributes. The names for GenAI and RPC follow OpenTelemetry's semantic conventions, which are
in development: a change of theirs is a change of this file.

https://opentelemetry.io/docs/specs/semconv/gen-ai/, https://opentelemetry.io/docs/specs/semconv/rpc/
"""

from __future__ import annotations

import os
from typing import Final

SCOPE: Final = "archon"
"""The instrumentation scope of all spans."""

# Operations -----------------------------------------------------------------------------------------------------

INVOKE_WORKFLOW: Final = "invoke_workflow"
INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
DECIDE: Final = "decide"

# GenAI ----------------------------------------------------------------------------------------------------------

OPERATION_NAME: Final = "gen_ai.operation.name"
WORKFLOW_NAME: Final = "gen_ai.workflow.name"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_ID: Final = "gen_ai.agent.id"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"

INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

ERROR_TYPE: Final = "error.type"

# RPC ------------------------------------------------------------------------------------------------------------

RPC_SYSTEM: Final = "rpc.system.name"
RPC_METHOD: Final = "rpc.method"
RPC_STATUS: Final = "rpc.response.status_code"

# Archon's own ---------------------------------------------------------------------------------------------------

RUN_ID: Final = "archon.run.id"
RUN_STATE: Final = "archon.run.state"
TASK_ID: Final = "archon.task.id"
TASK_ATTEMPT: Final = "archon.task.attempt"
TASK_STATE: Final = "archon.task.state"
INSTANCE_ID: Final = "archon.instance.id"
OWNER: Final = "archon.orchestrator.id"
TENANT: Final = "archon.tenant"
COST: Final = "archon.usage.cost_usd"
LINK: Final = "archon.link"
STEP_ID: Final = "archon.step.id"
DECISION_RULE: Final = "archon.decision.rule"
DECISION_WINNER: Final = "archon.decision.winner"
DECISION_REASON: Final = "archon.decision.reason"
DECISION_CONFLICT: Final = "archon.decision.conflict"
DECISION_CHOSEN: Final = "archon.decision.chosen"
AGENT_RUN_ID: Final = "archon.agent.run_id"
ITERATIONS: Final = "archon.agent.iterations"

# Events of spans ------------------------------------------------------------------------------------------------

TAKEN_OVER: Final = "archon.run.taken_over"
PAUSED: Final = "archon.run.paused"
RESUMED: Final = "archon.run.resumed"
CANCEL_REQUESTED: Final = "archon.run.cancel_requested"
INPUT_REQUESTED: Final = "archon.task.input_requested"
INPUT_GIVEN: Final = "archon.task.input_given"

# Settings -------------------------------------------------------------------------------------------------------

OPT_IN: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"
CAPTURE_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def provider_name() -> str:
    """Returns the attribute of a model's provider: `gen_ai.provider.name` if OTEL_SEMCONV_STABILITY_OPT_IN has
    `gen_ai_latest_experimental`, else the name before it, `gen_ai.system`."""
    chosen = {word.strip() for word in os.environ.get(OPT_IN, "").split(",")}
    return "gen_ai.provider.name" if "gen_ai_latest_experimental" in chosen else "gen_ai.system"


def captures_content() -> bool:
    """Returns whether spans are to have messages, arguments and results:
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT is `true`, `span_only` or `span_and_event`."""
    return os.environ.get(CAPTURE_CONTENT, "").strip().lower() in ("true", "span_only", "span_and_event")
