"""A role served by an agent: messages to the model, records and the answer."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace

import pytest

from archon.agent import Answer, TaskContext
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import ArchonError, Internal, InvalidArgument, Unavailable
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest, ScriptedModel, Usage, create_model, retry
from archon_mesh.llm.base import estimate_input, estimate_tokens
from archon_mesh.llm.offline.reply import asks_for_requirements
from archon_mesh.llm.text_format.errors import ParsingError
from archon_mesh.llm.text_format.text_tool_model import TextToolModel
from archon_mesh.node import Role, agent_handler, role_handler
from archon_mesh.tools import tool
from archon_services.agents.roles.catalogue import PYTHON_ROLES, YAML_ROLES
from tests.fixtures.fake_link import FakeLink
from tests.fixtures.media import PNG
from tests.fixtures.reference_roles import reference_role
from tests.fixtures.scripted_model import says

REQUIREMENTS, DESIGNER, IMPLEMENTER, COORDINATOR = map(
    reference_role, ("requirements", "designer", "implementer", "coordinator")
)
POET = Role("poet", "You are a poet.", temperature=0.5, max_tokens=40, retries=0)


class Task(TaskContext):
    """A task for a handler; `sent` has the frames that it sent."""

    def __init__(self, text: str, context: Sequence[tuple[str, str]] = (), **fields: str) -> None:
        assigned = agent_pb2.AssignTask(input=[common_pb2.Part(text=text)], **fields)  # type: ignore[arg-type]
        for version, (role, answer) in enumerate(context):
            item = assigned.context.add(parts=[common_pb2.Part(text=answer)])
            item.ref.role, item.ref.version = role, version
        self.sent: list[session_pb2.AgentFrame] = []
        self._begin(common_pb2.TaskRef(task_id="t", attempt=1), assigned, FakeLink(self.sent), role="poet")

    @property
    def written(self) -> str:
        return "".join(frame.progress.text for frame in self.sent)


class Model:
    """Streams these chunks, then raises `error` if there is one."""

    model = "given"

    def __init__(self, *chunks: ModelChunk, error: BaseException | None = None) -> None:
        self._chunks = chunks
        self._error = error
        self.requests: list[ModelRequest] = []

    async def generate(self, request: ModelRequest) -> ModelReply:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        self.requests.append(request)
        for chunk in self._chunks:
            yield chunk
        if self._error is not None:
            raise self._error

    async def close(self) -> None:
        pass


CONTEXT = [("requirements", "R1. It must rhyme."), ("designer", "C1. Rhymer"), ("critic", "")]


async def sent(role: Role, task: TaskContext) -> list[ChatMessage]:
    """Returns the messages that the model receives."""
    model = ScriptedModel([says("x")])
    await role_handler(role, model)(task)
    return list(model.requests[0].messages)


async def test_context_items_are_system_messages_in_the_given_order() -> None:
    messages = await sent(POET, Task("Write a poem.", CONTEXT))
    assert [(message.role, message.content) for message in messages] == [
        ("system", "You are a poet."),
        ("system", "Shared context from requirements:\nR1. It must rhyme."),
        ("system", "Shared context from designer:\nC1. Rhymer"),
        ("system", "Shared context from critic:\n"),
        ("user", "Write a poem."),
    ]
    sources = [message.metadata.get("shared_memory_source") for message in messages]
    assert sources == [None, "requirements", "designer", "critic", None]
    assert [message.metadata.get("shared_memory") for message in messages] == [None, True, True, True, None]


async def test_awareness_message_follows_the_shared_context() -> None:
    task = Task("Go.", CONTEXT[:1], awareness="There is a painter too.")
    messages = await sent(replace(POET, coordinator=True), task)
    assert [message.content for message in messages][1:] == [
        "Shared context from requirements:\nR1. It must rhyme.",
        "There is a painter too.",
        "Go.",
    ]
    assert messages[2].metadata == {"orchestrator_awareness": True}


async def test_text_is_streamed_and_the_reply_is_the_answer() -> None:
    task = Task("It must export invoices. It should be fast.")
    answer = await role_handler(REQUIREMENTS, create_model("offline"))(task)
    assert answer.text.splitlines()[2:] == ["R1. It must export invoices.", "R2. It should be fast."]
    assert task.written == answer.text
    assert isinstance(answer, Answer)
    assert (task.usage.model_calls, task.usage.estimated) == (1, True)
    assert task.usage.input_tokens > 0


async def test_model_call_is_recorded_exactly_as_it_was_made() -> None:
    reply = ModelReply("Roses", (), Usage(7, 3), "given-1", "stop")
    model = Model(ModelChunk("Ro"), ModelChunk("ses"), ModelChunk(reply=reply))
    task = Task("Write.", CONTEXT[:1])
    await role_handler(POET, model)(task)
    (record,) = task.take_records()
    assert json.loads(record.request_json) == {
        "model": "given",
        "messages": [
            {"role": "system", "content": "You are a poet."},
            {
                "role": "system",
                "content": "Shared context from requirements:\nR1. It must rhyme.",
                "metadata": {
                    "shared_memory": True,
                    "shared_memory_source": "requirements",
                    "shared_memory_version": 1,
                },
            },
            {"role": "user", "content": "Write."},
        ],
        "origins": [
            {"kind": "system_prompt"},
            {"kind": "shared_context", "role": "requirements", "version": 1},
            {"kind": "input"},
        ],
        "temperature": 0.5,
        "max_tokens": 40,
    }
    sent = [(message.role, message.content) for message in model.requests[0].messages]
    assert sent == [(m["role"], m["content"]) for m in json.loads(record.request_json)["messages"]]
    response = json.loads(record.response_json)
    assert (response["text"], response["finish_reason"], response["usage"]["output_tokens"]) == ("Roses", "stop", 3)
    assert (record.target, record.usage.input_tokens) == ("given", 7)


@pytest.mark.parametrize(
    ("raised", "kind"),
    [(Unavailable("model is down"), Unavailable), (None, Unavailable), (ValueError("secret"), Internal)],
)
async def test_model_error_is_typed_and_its_call_recorded(raised: Exception | None, kind: type[ArchonError]) -> None:
    task = Task("Write.")
    with pytest.raises(kind) as caught:
        await role_handler(POET, Model(ModelChunk("Ro"), error=raised))(task)
    assert "secret" not in str(caught.value)
    (record,) = task.take_records()
    response = json.loads(record.response_json)
    assert (response["error"]["code"], response["text"]) == (kind.code, "Ro")
    assert task.usage.model_calls == 1


async def test_model_timeout_is_at_most_the_remaining_time_of_the_task() -> None:
    from archon import context

    model = Model(ModelChunk(reply=ModelReply("x", (), Usage(1, 1), "m", "stop")))
    with context.deadline(5.0):
        await role_handler(POET, model)(Task("Write."))
    assert 4.0 < model.requests[0].timeout <= 5.0


async def test_usage_counts_even_if_records_are_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHON_RECORDS", "off")
    task = Task("It must fly.")
    await role_handler(REQUIREMENTS, create_model("offline"))(task)
    assert task.take_records() == []
    assert task.usage.model_calls == 1


def test_only_the_role_requirements_asks_for_requirements() -> None:
    roles = [REQUIREMENTS, DESIGNER, IMPLEMENTER]
    asking = [
        role.name
        for role in map(reference_role, (*YAML_ROLES, *PYTHON_ROLES))
        if asks_for_requirements(role.system_prompt)
    ]
    assert asking == ["requirements"]
    assert [list(role.depends_on) for role in roles] == [[], ["requirements"], ["requirements", "designer"]]
    assert [role.coordinator for role in roles] == [False] * 3


def test_reference_coordinator_has_no_edges_and_no_methods() -> None:
    assert COORDINATOR.coordinator
    assert list(COORDINATOR.depends_on) == []


@pytest.mark.parametrize("fields", [{"name": ""}, {"system_prompt": " "}, {"depends_on": ["poet"]}])
def test_invalid_role_is_rejected(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        Role(**{"name": "poet", "system_prompt": "You are a poet.", **fields})  # type: ignore[arg-type]


async def test_context_messages_equal_those_of_core() -> None:
    assert await sent(POET, Task("Go.")) == [ChatMessage("system", "You are a poet."), ChatMessage("user", "Go.")]


class Unreliable(Model):
    """Fails the first calls, after a part of their text."""

    def __init__(self, failures: int, *chunks: ModelChunk) -> None:
        super().__init__(*chunks)
        self._failures = failures

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        self.requests.append(request)
        if len(self.requests) <= self._failures:
            yield ModelChunk("Ro")
            raise Unavailable("model is down")
        for chunk in self._chunks:
            yield chunk


async def test_each_try_of_a_model_call_is_a_record_with_its_own_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "BASE", 0.001)
    task = Task("Write.")
    model = Unreliable(2, ModelChunk("Roses", reply=ModelReply("Roses", (), Usage(7, 3), "given-1", "stop")))
    answer = await role_handler(replace(POET, retries=3), model)(task)
    responses = [json.loads(record.response_json) for record in task.take_records()]
    assert [response["text"] for response in responses] == ["Ro", "Ro", "Roses"]
    assert [response.get("error", {}).get("reason", "") for response in responses] == ["UNAVAILABLE", "UNAVAILABLE", ""]
    assert isinstance(answer, Answer)
    failed = estimate_input(model.requests[0]), estimate_tokens("Ro")
    assert task.usage.model_calls == 3
    assert (task.usage.input_tokens, task.usage.output_tokens) == (7 + 2 * failed[0], 3 + 2 * failed[1])
    assert task.usage.estimated


async def test_a_reply_that_cannot_be_read_is_recorded_with_what_both_tries_cost() -> None:
    task = Task("Write.")
    unreadable = 'Action: {"tool": "look", "argum'
    replies = [ModelReply(unreadable, (), Usage(70, 5), "given-1", "stop") for _ in range(2)]
    agent = Agent(
        "poet", model=TextToolModel(ScriptedModel(replies)), tools=[tool(name="look")(lambda: "seen")], retries=0
    )
    with pytest.raises(ParsingError):
        await agent_handler(agent)(task)
    records = task.take_records()
    for record in records:
        response = json.loads(record.response_json)
        assert (response["error"]["reason"], response["text"]) == ("INVALID_ARGUMENT", unreadable)
    assert [(record.usage.input_tokens, record.usage.output_tokens) for record in records] == [(70, 5), (70, 5)]
    assert (task.usage.input_tokens, task.usage.output_tokens, task.usage.model_calls) == (140, 10, 2)


async def test_a_model_of_the_text_format_is_recorded_as_it_was_asked() -> None:
    task = Task("Write.")
    call = 'Thought: see\nAction: {"tool": "look", "arguments": {}}'
    texts = ['Action: {"tool": "look", "argum', call, "Thought: done\nFinal Answer: Roses"]
    replies = [ModelReply(text, (), Usage(10 * n, n), "given-1", "stop") for n, text in enumerate(texts, 1)]
    model = TextToolModel(ScriptedModel(replies))
    agent = Agent("poet", model=model, system_prompt="You write.", tools=[tool(name="look")(lambda: "seen")])
    await agent_handler(agent)(task)
    records = [record for record in task.take_records() if record.kind == "model"]
    requests = [json.loads(record.request_json) for record in records]
    responses = [json.loads(record.response_json) for record in records]
    assert [response["text"] for response in responses] == texts, "as they were received"
    assert ["error" in response for response in responses] == [True, False, False]
    assert [record.usage.input_tokens for record in records] == [10, 20, 30]
    for request in requests:
        assert request["messages"][0]["content"].startswith("You write.\n\nYou can use tools. Reply in one of these")
        assert "tools" not in request, "they are in the text"
    assert [origin["kind"] for origin in requests[1]["origins"]] == ["system_prompt", "input", "step", "note"]
    assert requests[1]["messages"][2]["content"] == texts[0]
    assert requests[2]["origins"] == [
        {"kind": "system_prompt"},
        {"kind": "input"},
        {"kind": "step"},
        {"kind": "tool_result", "tool": "look"},
    ]
    assert (task.usage.input_tokens, task.usage.output_tokens, task.usage.model_calls) == (60, 6, 3)


class BrokenOff:
    """A model whose second reply breaks off."""

    model = "given"

    def __init__(self) -> None:
        self.calls = 0

    async def generate(self, request: ModelRequest) -> ModelReply:
        raise AssertionError("calls stream")

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        self.calls += 1
        yield ModelChunk("45, I th")
        if self.calls == 2:
            raise Unavailable("the stream broke")
        yield ModelChunk(reply=ModelReply("{broken", (), Usage(70, 5), "given-1", "stop"))

    async def close(self) -> None:
        pass


async def test_a_reply_that_breaks_off_costs_besides_the_one_before_it() -> None:
    task = Task("Write.")
    agent = Agent("poet", model=TextToolModel(BrokenOff()), tools=[tool(name="look")(lambda: "seen")], retries=0)
    with pytest.raises(Unavailable):
        await agent_handler(agent)(task)
    first, second = task.take_records()
    assert json.loads(first.response_json)["text"] == "{broken"
    assert json.loads(second.response_json)["text"] == "45, I th"
    assert (first.usage.input_tokens, first.usage.estimated, second.usage.estimated) == (70, False, True)
    assert task.usage.input_tokens == 70 + second.usage.input_tokens > 70


async def test_the_usage_of_a_call_says_what_came_from_the_cache() -> None:
    task = Task("Write.")
    usage = Usage(700, 3, cached_input_tokens=600, cache_write_tokens=50)
    answer = await role_handler(POET, Model(ModelChunk("Roses", reply=ModelReply("Roses", (), usage, "g", "stop"))))(
        task
    )
    assert isinstance(answer, Answer)
    assert (task.usage.cached_input_tokens, task.usage.cache_write_tokens) == (600, 50)


async def test_the_text_of_a_failed_try_is_apart_from_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "BASE", 0.001)
    task = Task("Write.")
    reply = ModelReply("Roses", (), Usage(7, 3), "given-1", "stop")
    model = Unreliable(2, ModelChunk("Ro"), ModelChunk("ses", reply=reply))
    answer = await role_handler(replace(POET, retries=3), model)(task)
    assert (answer.text, task.written) == ("Roses", "Ro\n\nRo\n\nRoses")


async def test_the_record_of_a_fallback_names_the_model_that_answered() -> None:
    task = Task("Write.")
    role = replace(POET, retries=0, fallback_model=create_model("offline"), max_tokens=None)
    await role_handler(role, Model(error=Unavailable("model is down")))(task)
    assert [record.target for record in task.take_records()] == ["given", "offline"]


async def test_a_file_of_an_upstream_answer_has_a_label() -> None:
    task = Task("Go on.", [("designer", "A sketch:")])
    task._context[0].parts.add(raw=PNG, filename="a.png", media_type="image/png")
    model = ScriptedModel(["done"])
    await role_handler(POET, model)(task)
    [shared] = [message for message in model.requests[0].messages if message.metadata.get("shared_memory")]
    assert shared.content.endswith(f"A sketch:\n\n[a.png, image/png, {len(PNG)} bytes]")
