"""What an agent with a long-term memory recalls and stores by itself, over a SQLite file."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from typing import Any, cast

import pytest
from typing_extensions import override

from archon.agent import TaskContext
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import InvalidArgument, Unavailable
from archon_mesh.agent import Agent, get_context
from archon_mesh.agent.hooks.middleware import Middleware, QueryCall
from archon_mesh.agent.state.agent_state import AgentState
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ModelRequest, ScriptedModel
from archon_mesh.llm.scripted import Response
from archon_mesh.memory.automatic import MemoryMiddleware, MemorySettings
from archon_mesh.memory.long_term import LongTermMemory
from archon_mesh.node.message_origins import message_origins
from archon_mesh.tools import tool

WINDOW_SEATS = "I only fly with window seats."


def memories(request: ModelRequest) -> list[str]:
    """Returns the texts of the memories in a request, without date and role."""
    found = [message.content for message in request.messages if message.metadata.get("origin") == "memory"]
    assert all(text.startswith("[Memory from 20") for text in found)
    return [text.partition("] ")[2] for text in found]


def clerk(memory: LongTermMemory, model: ScriptedModel, user: str = "ana", **fields: Any) -> Agent:
    settings = fields.pop("settings", None)
    return Agent("clerk", system_prompt="You help.", model=model, user_id=user, **fields).use(
        MemoryMiddleware(memory, settings)
    )


async def test_a_follow_up_is_answered_from_an_earlier_session(memory: LongTermMemory) -> None:
    await clerk(memory, ScriptedModel(["Tokyo is the capital of Japan; 13,960,000 people live there."])).run_async(
        "Tell me about Tokyo."
    )
    model = ScriptedModel(["13,960,000."])
    await clerk(memory, model).run_async("Its population?")
    (turn,) = memories(model.requests[0])
    assert turn.startswith("user: Tell me about Tokyo.\nassistant: Tokyo is the capital")
    assert [message.role for message in model.requests[0].messages] == ["system", "user", "user"]


async def test_memories_without_room_are_counted_in_the_log(
    memory: LongTermMemory, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        await memory.store(f"The trip to Oslo, part {number}: {'pack much ' * 40}", {"user": "ana", "type": "turn"})
    model = ScriptedModel(["Done."])
    with caplog.at_level("INFO"):
        await clerk(memory, model, settings=MemorySettings(budget=600)).run_async("Plan the trip to Oslo, all parts")
    assert len(memories(model.requests[0])) == 1
    assert "2 memories have no room in the budget of the request (memory.token_budget)" in caplog.text


class Setup(Middleware):
    """A middleware that sets something up before the first model call."""

    def __init__(self) -> None:
        self.began = asyncio.Event()

    @override
    async def wrap_query(self, state: AgentState, message: str, call: QueryCall) -> str:
        self.began.set()
        return await call()


async def test_memories_are_recalled_beside_the_setup_of_a_run(
    memory: LongTermMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.store(WINDOW_SEATS, {"user": "ana", "type": "preference"})
    setup, recent = Setup(), memory.recent

    async def after_setup(*arguments: Any, **more: Any) -> Any:
        await setup.began.wait()
        return await recent(*arguments, **more)

    monkeypatch.setattr(memory, "recent", after_setup)
    model = ScriptedModel(["Done."])
    agent = clerk(memory, model).use(setup)
    await agent.run_async("Book the trip to Oslo")
    assert memories(model.requests[0]) == [WINDOW_SEATS], "a recall before the setup never ends"


async def test_a_run_without_a_model_call_leaves_no_recall_behind(
    memory: LongTermMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    class Fails(Middleware):
        @override
        async def wrap_query(self, state: AgentState, message: str, call: QueryCall) -> str:
            raise InvalidArgument("no")

    monkeypatch.setattr(memory, "recent", never)
    with pytest.raises(InvalidArgument):
        await clerk(memory, ScriptedModel([])).use(Fails()).run_async("Hello.")
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "recall"]


async def test_a_preference_is_recalled_whatever_the_query_says(memory: LongTermMemory) -> None:
    await clerk(memory, ScriptedModel(["Noted."])).run_async(f"Hello. {WINDOW_SEATS}")
    for number in range(30):
        await memory.store(f"A note on the invoice {number} of May", {"user": "ana", "type": "turn"})
    model = ScriptedModel(["Done."])
    await clerk(memory, model).run_async("Book the trip to Oslo with invoice 7 of May")
    assert memories(model.requests[0])[0] == WINDOW_SEATS
    (stored,) = await memory.recent(10, {"user": "ana", "type": "preference"})
    assert stored.importance == 0.9
    assert stored.metadata.items() >= {"user": "ana", "role": "user"}.items()


async def test_an_older_preference_is_found_by_the_query(memory: LongTermMemory) -> None:
    await memory.store("I never eat cheese.", {"user": "ana", "type": "preference", "role": "user"})
    for number in range(20):
        text = f"My favourite number of series {number} is {number}."
        await memory.store(text, {"user": "ana", "type": "preference", "role": "user"})
    model = ScriptedModel(["Done."])
    await clerk(memory, model).run_async("Which cheese shall the cook serve to me for dinner tonight?")
    assert "I never eat cheese." in memories(model.requests[0])


async def test_a_preference_that_is_repeated_is_stored_once(memory: LongTermMemory) -> None:
    for _ in range(3):
        await clerk(memory, ScriptedModel(["Noted."])).run_async(WINDOW_SEATS)
    assert len(await memory.recent(10, {"user": "ana", "type": "preference"})) == 1


async def test_memories_of_other_users_are_not_recalled(memory: LongTermMemory) -> None:
    await clerk(memory, ScriptedModel(["Noted."]), "ben").run_async(WINDOW_SEATS)
    model = ScriptedModel(["Done."])
    await clerk(memory, model, "ana").run_async("Which seats do I fly with?")
    assert memories(model.requests[0]) == []


async def test_a_query_that_finds_nothing_gets_the_newest_two(memory: LongTermMemory) -> None:
    for number in range(20):
        await memory.store(f"Invoice {number} was paid", {"user": "ana", "type": "turn"})
    model = ScriptedModel(["Bonjour."])
    await clerk(memory, model).run_async("Translate these words, please: zebra, giraffe, crocodile")
    assert memories(model.requests[0]) == ["Invoice 19 was paid", "Invoice 18 was paid"]


async def test_memories_are_named_as_such_in_the_record_of_a_call(memory: LongTermMemory) -> None:
    await memory.store(WINDOW_SEATS, {"user": "ana", "type": "preference", "role": "user"})
    model = ScriptedModel(["Done."])
    agent = clerk(memory, model)
    await agent.run_async("Book a flight")
    assert agent.state is not None
    kinds = [each["kind"] for each in message_origins(model.requests[0].messages, "You help.", agent.state.run_id)]
    assert kinds == ["system_prompt", "memory", "input"]


@tool
def population(city: str) -> str:
    """Looks up a population."""
    return f"{city} had 13,960,000 people in 2021. The mayor is called Yuriko Koike."


async def test_a_result_of_a_tool_that_mattered_is_stored(memory: LongTermMemory) -> None:
    model = ScriptedModel([ToolCall("1", "population", '{"city": "Tokyo"}'), "Yuriko Koike is from Ashiya."])
    await clerk(memory, model, tools=[population]).run_async("Which mayor has Tokyo?")
    stored = {entry.metadata["type"]: entry.content for entry in await memory.recent(3, {"user": "ana"})}
    assert stored["finding"] == "population: The mayor is called Yuriko Koike."
    assert stored["outcome"].endswith("completed with population")


async def test_a_run_searches_once(memory: LongTermMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    query = memory.query

    async def counted(query_text: str, *args: Any, **more: Any) -> Any:
        searched.append(query_text)
        return await query(query_text, *args, **more)

    monkeypatch.setattr(memory, "query", counted)
    model = ScriptedModel([ToolCall("1", "population", '{"city": "Tokyo"}'), "Done."])
    await clerk(memory, model, tools=[population]).run_async("Which mayor has Tokyo?")
    assert searched == ["Which mayor has Tokyo?"]


@tool
def note(key: str, value: str | None = None) -> str:
    """Notes a value in the storage of the run, or removes it."""
    storage = get_context().global_storage
    storage.set(key, value) if value is not None else storage.pop(key)
    return WINDOW_SEATS


def noting(*notes: str) -> list[Response]:
    return [*(ToolCall(str(number), "note", arguments) for number, arguments in enumerate(notes)), "Done."]


async def test_each_request_of_a_run_begins_with_the_one_before(memory: LongTermMemory) -> None:
    await memory.store(WINDOW_SEATS, {"user": "ana", "type": "preference", "role": "user"})
    await memory.store("The mayor of Tokyo is called Yuriko Koike.", {"user": "ana", "type": "turn"})
    model = ScriptedModel(
        noting('{"key": "a", "value": "1"}', '{"key": "b", "value": "2"}', '{"key": "a"}', '{"key": "b"}')
    )
    settings = MemorySettings(working_memory=True, threshold=0.1)
    agent = clerk(memory, model, tools=[note], settings=settings)
    agent.on("query_start").handle(effects=lambda hook: hook.state.global_storage.set("goal", "seats"))
    await agent.run_async("Which mayor has Tokyo?")
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages
    shown = [message.content for message in model.requests[-1].messages if "[Working memory" in message.content]
    assert shown == [
        '[Working memory]\ngoal: "seats"',
        '[Working memory, changed]\na: "1"',
        '[Working memory, changed]\nb: "2"',
        "[Working memory, changed]\na: (removed)",
        "[Working memory, changed]\nb: (removed)",
    ]


async def test_changes_of_the_working_memory_keep_to_its_part_of_the_budget(memory: LongTermMemory) -> None:
    notes = [json.dumps({"key": "draft", "value": f"{number} " + "x" * 300}) for number in range(12)]
    model = ScriptedModel(noting(*notes))
    settings = MemorySettings(working_memory=True, budget=2_000)
    await clerk(memory, model, tools=[note], settings=settings).run_async("Write")
    for request in model.requests:
        shown = [message.content for message in request.messages if "[Working memory" in message.content]
        assert sum(len(text) for text in shown) / 4 <= 400
    assert 'draft: "11 ' in shown[-1]


async def test_memories_keep_to_their_part_of_the_budget(memory: LongTermMemory) -> None:
    for number in range(30):
        text = f"I prefer hotel number {number} in Tokyo. " + f"reason{number} " * 20
        await memory.store(text, {"user": "ana", "type": "preference", "role": "user"})
        await memory.store(f"Tokyo turn {number}: " + f"word{number} " * 20, {"user": "ana", "type": "turn"})
    model = ScriptedModel(["Done."])
    settings = MemorySettings(budget=2_000, limit=20, threshold=0.0)
    await clerk(memory, model, settings=settings).run_async("Which hotel in Tokyo?")
    found = memories(model.requests[0])
    assert sum(len(text) // 4 for text in found) <= 600
    assert sum("I prefer" in text for text in found) >= 2
    assert sum("Tokyo turn" in text for text in found) >= 2
    assert len(set(found)) == len(found)


async def test_old_turns_leave_the_request_but_not_the_history(memory: LongTermMemory) -> None:
    model = ScriptedModel([ToolCall("1", "population", '{"city": "Tokyo"}'), *["Answer. " + "x" * 400] * 12])
    agent = clerk(memory, model, tools=[population], settings=MemorySettings(budget=1_000))
    for number in range(12):
        await agent.run_async(f"Question {number} " + "y" * 200)
    queries = [
        message.content[:11] for message in model.requests[-1].messages if message.content.startswith("Question")
    ]
    assert queries[-1] == "Question 11"
    assert 1 < len(queries) < 5
    assert len(agent.history) == 26
    assert not any(message.role == "tool" for message in model.requests[-1].messages)


async def test_a_turn_of_the_conversation_is_not_repeated(memory: LongTermMemory) -> None:
    model = ScriptedModel(["Tokyo is big.", "Very big."])
    agent = clerk(memory, model)
    await agent.run_async("Tell me about Tokyo.")
    await agent.run_async("How big is Tokyo?")
    assert memories(model.requests[1]) == []


async def test_working_memory_stands_before_the_memories(memory: LongTermMemory) -> None:
    await memory.store(WINDOW_SEATS, {"user": "ana", "type": "preference", "role": "user"})
    model = ScriptedModel(["Done.", "Done."])
    agent = clerk(memory, model, settings=MemorySettings(working_memory=True))
    agent.on("query_start").handle(effects=lambda hook: hook.state.global_storage.set("plan", ["a", "b"]))
    await agent.run_async("Go on")
    texts = [message.content for message in model.requests[0].messages]
    assert texts[1] == '[Working memory]\nplan: ["a","b"]'
    assert texts[2].endswith(WINDOW_SEATS)


async def test_a_memory_whose_fact_the_answer_has_was_useful(memory: LongTermMemory) -> None:
    used = await memory.store("user: the code of locker 17 is 8841", {"user": "ana", "type": "turn"})
    unused = await memory.store("user: the colour of locker 17 is green", {"user": "ana", "type": "turn"})
    await clerk(memory, ScriptedModel(["It is 8841."])).run_async("What is the code of locker 17?")
    counts = {entry.id: entry.useful for entry in await memory.recent(10)}
    assert (counts[used], counts[unused]) == (1, 0)
    await memory.upkeep.write_uses()
    entry = await memory.get(used)
    assert entry is not None
    assert entry.use_count >= 1


async def test_a_failed_run_leaves_its_outcome(memory: LongTermMemory) -> None:
    with pytest.raises(Unavailable):
        await clerk(memory, ScriptedModel([Unavailable("no model")]), retries=0).run_async(f"{WINDOW_SEATS} Book it.")
    stored = {entry.metadata["type"]: entry.content for entry in await memory.recent(10)}
    assert stored["outcome"].endswith("Outcome: failed: Unavailable: no model")
    assert stored["preference"] == WINDOW_SEATS


async def test_attempts_at_a_task_leave_one_turn(memory: LongTermMemory) -> None:
    replies: list[Response] = [Unavailable("no model"), "First answer.", "Second answer."]
    agent = clerk(memory, ScriptedModel(replies), retries=0)
    for attempt in (1, 2, 3):
        ref = common_pb2.TaskRef(run_id="r", task_id="t", attempt=attempt)
        task = TaskContext.from_proto(ref, agent_pb2.AssignTask(), cast(Any, None))
        with contextlib.suppress(Unavailable):
            await agent.run_async("Go to Oslo", {"task": task})
    stored = [(entry.metadata["type"], entry.content) for entry in reversed(await memory.recent(10))]
    assert stored == [
        ("outcome", "Task: Go to Oslo\nOutcome: failed: Unavailable: no model"),
        ("turn", "user: Go to Oslo\nassistant: First answer."),
    ]


async def test_the_model_is_asked_for_preferences_if_allowed(memory: LongTermMemory) -> None:
    model = ScriptedModel(["D'accord.", "Ana ne mange pas de viande."])
    settings = MemorySettings(ask_model=True)
    await clerk(memory, model, settings=settings).run_async("Je ne mange pas de viande.")
    (stored,) = await memory.recent(10, {"type": "preference"})
    assert stored.content == "Ana ne mange pas de viande."


async def test_summaries_are_stored_in_the_memory(memory: LongTermMemory) -> None:
    middleware = MemoryMiddleware(memory, MemorySettings(budget=400))
    model = ScriptedModel(["Short.", "They talked.", "Done."])
    agent = Agent("clerk", model=model, user_id="ana").use(middleware.compaction(200, window_size=1), middleware)
    await agent.run_async("The code of locker 17 is 8841. " + "x" * 700)
    await agent.run_async("And now?")
    (stored,) = await memory.recent(10, {"type": "summary"})
    assert stored.content == "They talked.\n\nAlso said:\n- The code of locker 17 is 8841."
    assert (stored.metadata["user"], stored.metadata["role"]) == ("ana", "clerk")
    assert agent.history[0].content.startswith("[Earlier conversation summarized: They talked.")


@pytest.mark.parametrize(
    "wrong", [{"budget": 0}, {"limit": 0}, {"threshold": 2.0}, {"history": 0.9}, {"template": -1.0}]
)
def test_settings_out_of_range_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        MemorySettings(**wrong)
    assert dataclasses.replace(MemorySettings(), history=0.2).history == 0.2
