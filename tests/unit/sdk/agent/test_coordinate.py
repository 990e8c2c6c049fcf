"""A coordinating role: other roles as tools, delegations as calls, and what their failures come to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from archon.agent import TaskContext
from archon.agent.values import Delegated
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import (
    ArchonError,
    BudgetExhausted,
    DelegationTimeout,
    OperationCancelled,
    ResourceExhausted,
    Unavailable,
)
from archon.types import Part, Usage
from archon_mesh.agent.config import AgentConfig
from archon_mesh.core.awareness import awareness_message
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.llm.prices import OUTPUT_TOKENS
from archon_mesh.node import Role, role_handler
from tests.fixtures.fake_link import FakeLink
from tests.fixtures.scripted_model import says

MAX_TURNS = AgentConfig().max_iterations
LEAD = Role("lead", "You lead.", coordinator=True, retries=0)
AWARENESS = awareness_message([("cook", "fire-brigade")], ["cook", "fire-brigade"])


class Task(TaskContext):
    """A task whose delegations are answered by `plays`, which maps a role to a text, an error, or a coroutine
    function."""

    def __init__(self, plays: dict[str, Any] | None = None, **fields: Any) -> None:
        plays = {"cook": "Soup.", "fire-brigade": "Out."} if plays is None else plays
        targets = [agent_pb2.DelegationTarget(role=role, description=f"Does what a {role} does.") for role in plays]
        assigned = agent_pb2.AssignTask(
            input=[common_pb2.Part(text="Make lunch.")], awareness=AWARENESS, delegation_targets=targets, **fields
        )
        self.sent: list[session_pb2.AgentFrame] = []
        self._begin(common_pb2.TaskRef(task_id="t", attempt=1), assigned, FakeLink(self.sent), role="lead")
        self._plays = plays
        self.delegations: list[tuple[str, str]] = []
        self.keys: list[str] = []
        self.checkpoints: list[bytes] = []
        self.cancelled: list[str] = []
        self.reserved: list[int] = []
        self.allowance: int | None = None

    @property
    def written(self) -> str:
        return "".join(frame.progress.text for frame in self.sent)

    async def delegate(
        self,
        input: str | Sequence[Part],
        *,
        role: str = "",
        memo_key: str = "",
        checkpoint: bytes = b"",
        **_: Any,
    ) -> Delegated:
        assert isinstance(input, str)
        self.delegations.append((role, input))
        self.keys.append(memo_key)
        self.checkpoints.append(checkpoint)
        play = self._plays[role]
        try:
            answer = await play() if callable(play) else play
        except asyncio.CancelledError:
            self.cancelled.append(role)
            raise
        if isinstance(answer, BaseException):
            raise answer
        return Delegated(answer, (), Usage(output_tokens=1000), memoized=False, metadata={})

    async def reserve(self, *, tokens: int = 0, cost_micro_usd: int = 0, model_calls: int = 1) -> None:
        self.reserved.append(tokens)
        if self.allowance is not None and tokens > self.allowance:
            raise BudgetExhausted("the budget is insufficient")


def call(name: str, number: int = 1, arguments: str = '{"task": "Do it."}') -> ToolCall:
    return ToolCall(f"call-{number}", name, arguments)


def tool_messages(model: ScriptedModel, request: int = -1) -> list[tuple[str | None, str]]:
    """Returns call id and content of each tool message of a request."""
    messages = model.requests[request].messages
    return [(message.tool_call_id, message.content) for message in messages if message.role == "tool"]


async def test_other_roles_are_tools_with_their_names_and_descriptions() -> None:
    model = ScriptedModel([says("Done.")])
    await role_handler(LEAD, model)(Task())
    assert [(tool.name, tool.description) for tool in model.requests[0].tools] == [
        ("cook", "Does what a cook does."),
        ("fire-brigade", "Does what a fire-brigade does."),
    ]
    schema = model.requests[0].tools[0].parameters_schema
    assert (schema["type"], schema["required"], list(schema["properties"])) == ("object", ["task"], ["task"])


async def test_the_prompt_precedes_awareness_and_query() -> None:
    model = ScriptedModel([says("Done.")])
    await role_handler(LEAD, model)(Task())
    assert model.requests[0].messages == (
        ChatMessage("system", "You lead."),
        ChatMessage("system", AWARENESS, metadata={"orchestrator_awareness": True}),
        ChatMessage("user", "Make lunch."),
    )


async def test_calls_are_delegated_until_a_reply_has_none() -> None:
    first = says("I ask the cook.", call("cook", 1, '{"task": "Cook soup."}'))
    model = ScriptedModel([first, says("", call("fire-brigade", 2)), says("Lunch is ready.")])
    task = Task()
    answer = await role_handler(LEAD, model)(task)
    assert answer.text == "Lunch is ready."
    assert task.delegations == [("cook", "Cook soup."), ("fire-brigade", "Do it.")]
    assert model.requests[2].messages[-4:] == (
        ChatMessage("assistant", "I ask the cook.", tool_calls=first.tool_calls),
        ChatMessage("tool", "Soup.", tool_call_id="call-1"),
        ChatMessage("assistant", "", tool_calls=(call("fire-brigade", 2),)),
        ChatMessage("tool", "Out.", tool_call_id="call-2"),
    )
    assert task.written == "I ask the cook.\n\nLunch is ready."


async def test_usage_adds_up_over_turns_without_that_of_others() -> None:
    task = Task()
    await role_handler(LEAD, ScriptedModel([says("", call("cook")), says("Done.")]))(task)
    assert (task.usage.input_tokens, task.usage.output_tokens, task.usage.model_calls) == (200, 20, 2)


async def test_contract_rule_12_calls_are_recorded_as_they_were_sent() -> None:
    task = Task()
    await role_handler(LEAD, ScriptedModel([says("", call("cook")), says("Done.")]))(task)
    first, second = task.take_records()
    request, response = json.loads(second.request_json), json.loads(first.response_json)
    wire = {"id": "call-1", "type": "function", "function": {"name": "cook", "arguments": '{"task": "Do it."}'}}
    assert response["tool_calls"] == [wire]
    assert response["finish_reason"] == "tool_calls"
    assert request["messages"][1]["metadata"] == {"orchestrator_awareness": True}
    assert request["messages"][-2:] == [
        {"role": "assistant", "content": None, "tool_calls": [wire]},
        {"role": "tool", "content": "Soup.", "tool_call_id": "call-1"},
    ]
    assert [tool["function"]["name"] for tool in request["tools"]] == ["cook", "fire-brigade"]
    assert "tool_calls" not in json.loads(second.response_json)


async def test_calls_of_one_turn_run_concurrently_and_keep_order() -> None:
    begun = asyncio.Event()

    async def waits() -> str:
        async with asyncio.timeout(60):
            await begun.wait()
        return "Soup."

    async def begins() -> str:
        begun.set()
        return "Out."

    model = ScriptedModel([says("", call("cook", 1), call("fire-brigade", 2)), says("Done.")])
    await role_handler(LEAD, model)(Task({"cook": waits, "fire-brigade": begins}))
    assert tool_messages(model) == [("call-1", "Soup."), ("call-2", "Out.")]


async def test_a_failed_delegation_reaches_the_model_not_its_siblings() -> None:
    async def later() -> str:
        await asyncio.sleep(0)
        return "Soup."

    model = ScriptedModel([says("", call("fire-brigade", 1), call("cook", 2)), says("Only soup.")])
    task = Task({"cook": later, "fire-brigade": DelegationTimeout("no answer\nwithin 60 s")})
    assert (await role_handler(LEAD, model)(task)).text == "Only soup."
    assert tool_messages(model) == [
        ("call-1", "Error DEADLINE_EXCEEDED (DELEGATION_TIMEOUT): no answer within 60 s"),
        ("call-2", "Soup."),
    ]
    assert task.cancelled == []


@pytest.mark.parametrize("error", [OperationCancelled("stopped"), BudgetExhausted("spent")])
async def test_cancellation_and_an_empty_budget_end_task_and_siblings(error: Exception) -> None:
    model = ScriptedModel([says("", call("cook", 1), call("fire-brigade", 2))])
    task = Task({"cook": asyncio.Event().wait, "fire-brigade": error})
    with pytest.raises(type(error)) as caught:
        await role_handler(LEAD, model)(task)
    assert caught.value is error
    assert task.cancelled == ["cook"]


async def test_cancelling_the_task_cancels_its_delegations() -> None:
    begun = asyncio.Event()

    async def hangs() -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    task = Task({"cook": hangs, "fire-brigade": hangs})
    model = ScriptedModel([says("", call("cook", 1), call("fire-brigade", 2))])
    working = asyncio.create_task(_answer(role_handler(LEAD, model), task))
    async with asyncio.timeout(60):
        await begun.wait()
        working.cancel()
        await asyncio.wait({working})
    assert working.cancelled()
    assert sorted(task.cancelled) == ["cook", "fire-brigade"]


async def _answer(handler: Callable[[TaskContext], Any], task: TaskContext) -> object:
    return await handler(task)


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("painter", '{"task": "Paint."}', "no tool 'painter'; registered: cook, fire-brigade"),
        ("cook", '{"task": "Coo', "invalid arguments: not JSON"),
        ("cook", "[" * 100_000, "invalid arguments: not JSON"),
        ("cook", "", "'task' is a required property"),
        ("cook", '["task"]', "expected a JSON object"),
        ("cook", '{"job": "Cook."}', "'task' is a required property"),
        ("cook", '{"task": 7}', "task: 7 is not of type 'string'"),
        ("cook", '{"task": " "}', "task: ' ' does not match"),
    ],
)
async def test_an_invalid_call_is_answered_with_an_error(name: str, arguments: str, error: str) -> None:
    model = ScriptedModel([says("", call(name, 1, arguments)), says("Done.")])
    task = Task()
    await role_handler(LEAD, model)(task)
    [(number, content)] = tool_messages(model)
    assert number == "call-1"
    assert content.startswith("Error NOT_FOUND" if name == "painter" else "Error INVALID_ARGUMENT (INVALID_ARGUMENT): ")
    assert error in content
    assert task.delegations == []


async def test_text_with_a_lone_surrogate_is_cleaned() -> None:
    task = Task()
    await role_handler(LEAD, ScriptedModel([says("", call("cook", 1, '{"task": "a\\ud800b"}')), says("Done.")]))(task)
    assert task.delegations == [("cook", "a?b")]


async def test_calls_without_an_id_get_the_id_of_their_answers() -> None:
    nameless = ToolCall("", "cook", '{"task": "Do it."}')
    model = ScriptedModel([says("", nameless, nameless), says("Done.")])
    await role_handler(LEAD, model)(Task())
    ids = [number for number, _ in tool_messages(model)]
    assert len(set(ids)) == 2 and all(ids)
    assert [call.id for message in model.requests[1].messages for call in message.tool_calls] == ids


async def test_a_model_that_never_stops_calling_fails_the_task() -> None:
    model = ScriptedModel(
        says("", call("cook", number, f'{{"task": "Cook dish {number}."}}')) for number in range(MAX_TURNS)
    )
    task = Task()
    with pytest.raises(ResourceExhausted, match=f"no answer after {MAX_TURNS} iterations"):
        await role_handler(LEAD, model)(task)
    assert len(model.requests) == MAX_TURNS == len(task.delegations) + 1


async def test_budget_is_reserved_before_each_model_call() -> None:
    task = Task()
    task.allowance = OUTPUT_TOKENS + 400
    model = ScriptedModel([says("", call("cook")), says("Unused.")])
    task._plays["cook"] = "Soup. " * 400
    with pytest.raises(BudgetExhausted):
        await role_handler(LEAD, model)(task)
    assert len(model.requests) == 1
    assert OUTPUT_TOKENS < task.reserved[0] < task.allowance < task.reserved[1]


async def test_a_plain_role_reserves_budget_and_sees_no_tools() -> None:
    poet, task, model = Role("poet", "You rhyme.", max_tokens=7), Task(), ScriptedModel([says("Roses")])
    await role_handler(poet, model)(task)
    assert task.reserved == [-(-len("You rhyme.") // 4) + -(-len("Make lunch.") // 4) + 7]
    assert model.requests[0].tools == ()
    task.allowance = 5
    with pytest.raises(BudgetExhausted):
        await role_handler(poet, model)(task)
    assert len(model.requests) == 1


async def test_without_targets_the_coordinator_answers_alone() -> None:
    model = ScriptedModel([says("Alone.")])
    assert (await role_handler(LEAD, model)(Task({}))).text == "Alone."
    assert model.requests[0].tools == ()


async def test_an_error_of_the_model_ends_the_task() -> None:
    error: ArchonError = Unavailable("the model is down")
    task = Task()
    with pytest.raises(Unavailable):
        await role_handler(LEAD, ScriptedModel([says("", call("cook")), error]))(task)
    assert [json.loads(record.response_json).get("error", {}).get("code") for record in task.take_records()] == [
        None,
        "UNAVAILABLE",
    ]
