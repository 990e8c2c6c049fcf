"""The offline model with tools: its calls, their order, and the combined answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from archon_mesh.core.awareness import awareness_chat_message, awareness_message
from archon_mesh.core.messages import ChatMessage
from archon_mesh.core.tool_messages import tool_answer, tool_failure
from archon_mesh.llm import ModelReply, ModelRequest, ToolSpec, create_model
from archon_mesh.llm.offline.reply import NOTICE

EDGES = [("requirements", "designer"), ("requirements", "implementer"), ("designer", "implementer")]
ORDER = ["requirements", "designer", "implementer"]
GOAL = "Build a todo app.\n\nIt must sync across all devices at once."
TOOLS = [ToolSpec(name, f"does {name}", {"type": "object"}) for name in ("implementer", "requirements", "designer")]


def opening(awareness: str = awareness_message(EDGES, ORDER)) -> list[ChatMessage]:
    aware = [awareness_chat_message(awareness)] if awareness else []
    return [ChatMessage("system", "You coordinate."), *aware, ChatMessage("user", GOAL)]


async def converse(
    messages: Sequence[ChatMessage],
    tools: Sequence[ToolSpec] = TOOLS,
    failing: Mapping[str, str] | None = None,
) -> tuple[list[str], str]:
    """Returns the called tools and the last reply; each tool answers `NAME's part`, except those in `failing`."""
    model, conversation = create_model("offline"), list(messages)
    called: list[str] = []
    while True:
        reply = await model.generate(ModelRequest(conversation, tools=tools))
        if not reply.tool_calls:
            assert reply.finish_reason == "stop"
            return called, reply.text
        [call] = reply.tool_calls
        assert (reply.text, reply.finish_reason) == ("", "tool_calls")
        assert json.loads(call.arguments_json) == {"task": GOAL}
        called.append(call.name)
        assert len(called) <= len(tools), called
        failure = (failing or {}).get(call.name)
        answer = tool_answer(call, f"{NOTICE}\n\n{call.name}'s part")
        if failure is not None:
            answer = tool_failure(call, "UNAVAILABLE", "UNAVAILABLE", failure)
        conversation += [ChatMessage("assistant", tool_calls=(call,)), answer]


async def test_tools_are_called_once_in_the_recommended_order() -> None:
    called, answer = await converse(opening())
    assert called == ORDER
    assert answer == (
        f"{NOTICE}\n\n"
        "## requirements\n\nrequirements's part\n\n"
        "## designer\n\ndesigner's part\n\n"
        "## implementer\n\nimplementer's part"
    )


async def test_without_an_order_tools_are_called_in_their_own() -> None:
    assert (await converse(opening("")))[0] == [tool.name for tool in TOOLS]
    assert (await converse(opening(awareness_message(EDGES, None))))[0] == [tool.name for tool in TOOLS]


async def test_tools_without_edges_come_last() -> None:
    spare = ToolSpec("spare", "", {"type": "object"})
    assert (await converse(opening(), [spare, *TOOLS]))[0] == [*ORDER, "spare"]
    assert (await converse(opening(), TOOLS[:2]))[0] == ["requirements", "implementer"]


async def test_failed_tool_and_its_dependants_are_not_called() -> None:
    spare = ToolSpec("spare", "", {"type": "object"})
    called, answer = await converse(opening(), [*TOOLS, spare], {"designer": "no instance serves designer"})
    assert called == ["requirements", "designer", "spare"]
    assert answer.split("\n\n", 1)[1] == (
        "## requirements\n\nrequirements's part\n\n"
        "## spare\n\nspare's part\n\n"
        "## Missing\n\n"
        "- designer gave no answer: Error UNAVAILABLE (UNAVAILABLE): no instance serves designer\n"
        "- implementer was not asked, because it builds on designer."
    )


async def test_missing_answer_propagates_to_all_dependants() -> None:
    called, answer = await converse(opening(), TOOLS, {"requirements": "it is down"})
    assert called == ["requirements"]
    assert "- designer was not asked, because it builds on requirements." in answer
    assert "- implementer was not asked, because it builds on requirements and designer." in answer
    assert "part" not in answer


async def test_reply_is_streamed_including_calls() -> None:
    model, request = create_model("offline"), ModelRequest(opening(), tools=TOOLS)
    steps = [step async for step in model.stream(request)]
    reply = steps[-1].reply
    assert isinstance(reply, ModelReply) and reply == await model.generate(request)
    deltas = [step.tool_call_delta for step in steps[:-1] if step.tool_call_delta is not None]
    assert len(deltas) == len(steps) - 1 > 3
    assert (deltas[0].id, deltas[0].name) == (reply.tool_calls[0].id, "requirements")
    assert "".join(delta.arguments_delta for delta in deltas) == reply.tool_calls[0].arguments_json
    assert {delta.index for delta in deltas} == {0}


async def test_usage_includes_tools_and_calls() -> None:
    model = create_model("offline")
    [without, with_tools] = [
        await model.generate(ModelRequest(opening(), tools=TOOLS[:count])) for count in (1, len(TOOLS))
    ]
    assert with_tools.usage.input_tokens > without.usage.input_tokens
    assert with_tools.usage.output_tokens > 0
    assert with_tools.usage.estimated


CALCULATOR = ToolSpec(
    "calculator",
    "Evaluates arithmetic.",
    {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
)


async def ask(text: str) -> ModelReply:
    messages = [ChatMessage("system", "You are the coder of a team."), ChatMessage("user", text)]
    return await create_model("offline").generate(ModelRequest(messages, [CALCULATOR]))


async def test_a_calculator_gets_the_arithmetic_of_the_query() -> None:
    (call,) = (await ask("How much is 15 * 24, please?")).tool_calls
    assert json.loads(call.arguments_json) == {"expression": "15 * 24"}


async def test_a_query_without_arithmetic_is_answered_without_the_calculator() -> None:
    reply = await ask("It must sort a list.")
    assert reply.tool_calls == ()
    assert "Task: It must sort a list." in reply.text
