"""The metrics of a model call, as the semantic conventions for GenAI have them."""

from __future__ import annotations

from archon import status
from archon.telemetry import metrics, names
from archon.telemetry.metrics import Labels, Recorder
from archon_mesh.agent.hooks.compaction import ContextCompactionMiddleware
from archon_mesh.agent.state.running_agent import RunningAgent
from archon_mesh.llm.base import ModelClient, Usage


def record_call(
    recorder: Recorder,
    agent: RunningAgent,
    model: ModelClient,
    seconds: float,
    usage: Usage | None,
    error: BaseException | None,
) -> None:
    """Records one try of a model call, which ended with a reply or an error. `usage` is None if none is known."""
    call = _labels(agent, model)
    error_type = "" if error is None else status.as_error(error).reason
    recorder.record(metrics.MODEL_DURATION, seconds, (*call, error_type))
    if usage is None:
        return
    recorder.record(metrics.TOKEN_USAGE, usage.input_tokens, (*call, "input"))
    recorder.record(metrics.TOKEN_USAGE, usage.output_tokens, (*call, "output"))
    if usage.input_tokens and not usage.estimated:
        recorder.record(metrics.CACHE_HITS, usage.cached_input_tokens / usage.input_tokens, (agent.name, model.model))
    for each in agent.registered:
        if isinstance(each, ContextCompactionMiddleware):
            share = usage.input_tokens / each.max_context_tokens
            recorder.record(metrics.CONTEXT_USAGE, share, (agent.name, model.model))
            break


def record_first_chunk(recorder: Recorder, agent: RunningAgent, model: ModelClient, seconds: float) -> None:
    """Records the time until the first chunk of a stream."""
    recorder.record(metrics.FIRST_CHUNK, seconds, _labels(agent, model))


def _labels(agent: RunningAgent, model: ModelClient) -> Labels:
    return (names.CHAT, getattr(model, "provider", "") or metrics.OTHER, model.model, agent.name)
