"""The offline model as a client: streams, usage, limits."""

from __future__ import annotations

import time

import pytest

from archon_mesh.core.memory_graph import SharedMemoryGraph
from archon_mesh.core.messages import ChatMessage, with_shared_context
from archon_mesh.llm import ModelRequest, Usage, create_model

PROMPTS = {
    "requirements": "You are the requirements analyst. Extract the requirements for the designer.",
    "designer": "You are the designer. Name a component for each requirement in your shared context.",
    "implementer": "From the requirements and the design, plan and write an implementation.",
}
EDGES = [("requirements", "designer"), ("requirements", "implementer"), ("designer", "implementer")]
GOAL = "Acme was founded in 1999. It must export\ninvoices as PDF. Users should see a log! Mustard is fine."


@pytest.mark.parametrize("prompt", PROMPTS.values())
async def test_chunks_of_a_stream_are_small_and_add_up_to_the_reply(prompt: str) -> None:
    model = create_model("offline")
    shared = ChatMessage("system", "Shared context from analyst:\nR1. It must log all  mails twice a day.")
    request = ModelRequest([ChatMessage("system", prompt), shared, ChatMessage("user", GOAL)])
    steps = [step async for step in model.stream(request)]
    reply = await model.generate(request)
    assert steps[-1].reply == reply
    assert "".join(step.text_delta for step in steps) == reply.text
    assert len(steps) > 3
    assert all(0 < len(step.text_delta.split(" ")) <= 5 for step in steps[:-1])


async def test_usage_is_estimated_at_four_characters_per_token() -> None:
    messages = [ChatMessage("system", "12345"), ChatMessage("user", "1234")]
    reply = await create_model().generate(ModelRequest(messages))
    assert reply.usage == Usage(3, -(-len(reply.text) // 4), estimated=True)
    assert (reply.model, reply.finish_reason, reply.tool_calls) == ("offline", "stop", ())


async def test_token_limit_truncates_the_reply() -> None:
    messages = [ChatMessage("system", PROMPTS["requirements"]), ChatMessage("user", GOAL)]
    whole = (await create_model().generate(ModelRequest(messages))).text
    cut = await create_model().generate(ModelRequest(messages, max_tokens=25))
    assert (cut.text, cut.finish_reason, cut.usage.output_tokens) == (whole[:100], "length", 25)
    going_on = [*messages, cut.message(), ChatMessage("system", "Go on.")]
    assert (await create_model().generate(ModelRequest(going_on))).text == whole[100:]
    again = [*messages, ChatMessage("assistant", whole)]
    assert (await create_model().generate(ModelRequest(again))).text == whole, "an answer that was not accepted"


@pytest.mark.parametrize("size", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
async def test_a_long_goal_takes_seconds_per_role(size: int) -> None:
    unit = "The system must keep the\nZEBRA invoice for a year. It was nice. Users want PDF files. "
    goal = unit * (size // len(unit))
    model, graph = create_model(), SharedMemoryGraph()
    for src, dst in EDGES:
        graph.add_edge(src, dst)
    for role, prompt in PROMPTS.items():
        own = [ChatMessage("system", prompt), ChatMessage("user", goal)]
        messages = with_shared_context(own, graph.pull_for(role))
        start = time.process_time()
        steps = [step async for step in model.stream(ModelRequest(messages))]
        assert time.process_time() - start < 10, "in quadratic time it would take minutes"
        assert steps[-1].reply is not None
        graph.publish(role, steps[-1].reply.text)
