"""Sessions over each store: histories are loaded before a run and saved after it, and runs do not interfere."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archon.errors import Aborted, DataLoss, InvalidArgument, Unavailable
from archon_mesh.agent import Agent, HistoryList
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.memory import EpisodicMemory, SessionManager, SessionStore
from archon_mesh.memory.message_json import message_from_json, message_to_json
from archon_mesh.memory.store import HistoryChange, HistoryKey
from tests.fixtures.scripted_model import says
from tests.fixtures.waiting import eventually, run_ready_tasks

KEY = HistoryKey("me", "s", "poet")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Returns the location of a store."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_dsn"))
    return "memory" if request.param == "memory" else str(tmp_path / "sessions.db")


@pytest.fixture
async def store(place: str) -> AsyncIterator[SessionStore]:
    session_store = SessionStore(place)
    yield session_store
    await session_store.close()


def poet(sessions: SessionManager, *replies: Any, session: str = "s", **more: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(replies)
    return Agent("poet", model=model, session_manager=sessions, user_id="me", session_id=session, **more), model


def texts(messages: Any) -> list[str]:
    return [message.content for message in messages]


async def test_missing_session_is_created_and_its_history_is_loaded(
    store: SessionStore,
) -> None:
    first, _ = poet(SessionManager(store), says("Tokyo"))
    await first.run_async("The capital of Japan?")
    again, model = poet(SessionManager(store), says("14 million"))
    await again.run_async("Its population?")
    assert texts(model.requests[0].messages) == ["The capital of Japan?", "Tokyo", "Its population?"]
    assert await store.sessions("me") == ["s"]
    assert await store.agents("me", "s") == ["poet"]
    kept = await store.messages(KEY)
    assert len({stored.message.run_id for stored in kept}) == 2


async def test_empty_session_id_creates_a_session_per_agent_history(store: SessionStore) -> None:
    sessions = SessionManager(store)
    writer, _ = poet(sessions, says("a verse"), session="")
    ask = says("", ToolCall("1", "poet", '{"task": "go"}'))
    lead = Agent(
        "lead", model=ScriptedModel([ask, says("done")]), session_manager=sessions, user_id="me", sub_agents=[writer]
    )
    await lead.run_async("?")
    assert lead.session_id
    assert set(await store.sessions("me")) == {lead.session_id, writer.session_id}
    stranger, model = poet(sessions, says("who?"), session="other")
    await stranger.run_async("me again")
    assert texts(model.requests[0].messages) == ["me again"]


async def test_messages_before_an_error_are_kept_and_can_be_undone(store: SessionStore) -> None:
    sessions = SessionManager(store)
    broken, _ = poet(sessions, Unavailable("down"), retries=0)
    with pytest.raises(Unavailable):
        await broken.run_async("1")
    assert texts(stored.message for stored in await store.messages(KEY)) == ["1"]
    assert broken.state is not None
    async with sessions.open("me", "s", "poet") as history:
        assert history.undo(broken.state.run_id) == 1
    assert await store.messages(KEY) == []


async def test_runs_of_one_session_are_serialised(store: SessionStore) -> None:
    sessions = SessionManager(store)

    class Slow(ScriptedModel):
        async def generate(self, request: Any) -> Any:
            await run_ready_tasks()
            return says(f"re: {request.messages[-1].content}")

    agents = [Agent("poet", model=Slow(), session_manager=sessions, user_id="me", session_id="s") for _ in range(6)]
    await asyncio.gather(*(agent.run_async(f"query {number}") for number, agent in enumerate(agents)))
    contents = texts(stored.message for stored in await store.messages(KEY))
    assert [text.removeprefix("re: ") for text in contents[1::2]] == contents[::2]
    assert sorted(contents[::2]) == [f"query {number}" for number in range(6)]
    assert not sessions._locks, "no lock is kept for sessions that are not in use"


async def test_conflicting_save_fails_and_stores_nothing(
    store: SessionStore,
) -> None:
    manager, other_manager = SessionManager(store), SessionManager(store)
    first, _ = poet(manager, says("a"))
    second, _ = poet(other_manager, says("b"))
    first.on("before_final_response").handle("continue", effects=lambda hook: second.run_async("in between"))
    with pytest.raises(Aborted, match="was saved in the meantime") as lost:
        await first.run_async("first")
    assert lost.value.reason == "CONFLICT"
    assert texts(stored.message for stored in await store.messages(KEY)) == ["in between", "b"]


async def test_replace_all_is_saved_and_item_assignment_is_not(store: SessionStore) -> None:
    sessions = SessionManager(store)
    async with sessions.open("me", "s", "poet") as history:
        history += [ChatMessage("user", "1"), ChatMessage("assistant", "2")]
        await history.flush()
        history[0] = ChatMessage("user", "changed")
    assert texts(stored.message for stored in await store.messages(KEY)) == ["1", "2"]
    async with sessions.open("me", "s", "poet") as history:
        history.append(ChatMessage("user", "3"))
        history.replace_all([ChatMessage("user", "summary")])
        history.append(ChatMessage("user", "4"))
    assert texts(stored.message for stored in await store.messages(KEY)) == ["summary", "4"]


async def test_flush_saves_whether_or_not_it_is_awaited(store: SessionStore) -> None:
    async def saved() -> list[str]:
        return texts(stored.message for stored in await store.messages(KEY))

    async def has(count: int) -> bool:
        return len(await saved()) == count

    def from_a_thread(history: HistoryList) -> None:
        history.append(ChatMessage("user", "3"))
        history.flush()

    async with SessionManager(store).open("me", "s", "poet") as history:
        history.append(ChatMessage("user", "1"))
        await history.flush()
        assert await saved() == ["1"]
        history.append(ChatMessage("user", "2"))
        history.flush()
        await eventually(lambda: has(2), 10.0)
        await asyncio.to_thread(from_a_thread, history)
        await eventually(lambda: has(3), 10.0)
        history.append(ChatMessage("user", "4"))
        history.flush()
    assert await saved() == ["1", "2", "3", "4"]
    history.flush()
    await history.flush()
    HistoryList().flush()
    await HistoryList().flush()


async def test_flush_without_await_leaves_its_error_to_the_end_of_the_run(store: SessionStore) -> None:
    with pytest.raises(Aborted, match="was saved in the meantime"):
        async with SessionManager(store).open("me", "s", "poet") as history:
            await store.save(KEY, 0, [HistoryChange("r", (ChatMessage("user", "between"),))])
            history.append(ChatMessage("user", "1"))
            history.flush()
            with pytest.raises(Aborted):
                await history.flush()


async def test_deleted_session_is_gone(store: SessionStore) -> None:
    agent, _ = poet(SessionManager(store), says("a"), says("b"))
    await agent.run_async("?")
    assert await store.delete("me", "s")
    assert not await store.delete("me", "s")
    assert (await store.sessions("me"), await store.messages(KEY)) == ([], [])
    await agent.run_async("again")
    assert len(await store.messages(KEY)) == 2


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
async def test_session_survives_a_restart(place: str) -> None:
    first = SessionManager(place)
    await poet(first, says("a"))[0].run_async("?")
    await first.close()
    again = SessionManager(place)
    assert texts(stored.message for stored in await again.store.messages(KEY)) == ["?", "a"]
    await again.close()


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
async def test_concurrent_creation_creates_one_session(place: str) -> None:
    stores = [SessionStore(place) for _ in range(3)]
    opened = await asyncio.gather(*(session_store.open(KEY) for session_store in stores for _ in range(3)))
    assert opened == [(0, [])] * 9
    for session_store in stores:
        await session_store.close()


# Episodic memory -------------------------------------------------------------------------------------------------


async def test_episodic_memory_filters_by_limit_index_and_tokens(place: str) -> None:
    sessions = SessionManager(SessionStore(place))
    memory = EpisodicMemory(sessions, "me", "s")
    for number in range(5):
        await memory.append("user", f"{number} " + "x" * 38, {"number": number})
    assert [message.metadata["number"] for message in await memory.get_messages()] == [0, 1, 2, 3, 4]
    assert [message.metadata["number"] for message in await memory.get_messages(limit=2)] == [3, 4]
    assert [message.metadata["number"] for message in await memory.get_messages(since=2)] == [2, 3, 4]
    assert [message.metadata["number"] for message in await memory.get_messages(limit=2, since=1)] == [3, 4]
    assert [message.metadata["number"] for message in await memory.get_messages(limit=4, since=3)] == [3, 4]
    assert await memory.get_messages(limit=0) == await memory.get_messages(since=5) == []
    for mistake in ({"since": -1}, {"since": 1.5}, {"limit": -1}):
        with pytest.raises(InvalidArgument, match="expected a number of messages"):
            await memory.get_messages(**mistake)
    assert [message.metadata["number"] for message in await memory.get_recent(max_tokens=25)] == [3, 4]
    assert await memory.get_recent(max_tokens=5) == []
    other = EpisodicMemory(sessions, "me", "other")
    assert await other.get_messages() == []
    await memory.clear()
    assert await memory.get_messages() == []
    await sessions.store.close()


async def test_episodic_memory_is_the_agents_own_history(store: SessionStore) -> None:
    sessions = SessionManager(store)
    await EpisodicMemory(sessions, "me", "s", "poet").append("user", "My name is Ada.")
    agent, model = poet(sessions, says("Ada"))
    await agent.run_async("What is my name?")
    assert texts(model.requests[0].messages) == ["My name is Ada.", "What is my name?"]


# Stored messages --------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
MESSAGES = st.builds(
    ChatMessage,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    TEXTS,
    st.lists(st.builds(ToolCall, TEXTS, TEXTS, TEXTS), max_size=2).map(tuple),
    st.none() | TEXTS,
    st.none() | TEXTS,
    st.dictionaries(TEXTS, TEXTS | st.integers() | st.booleans(), max_size=2),
)


@given(MESSAGES)
def test_message_round_trips(message: ChatMessage) -> None:
    again = message_from_json(message_to_json(message), "r")
    assert (again, again.run_id) == (message, "r")


@pytest.mark.parametrize("data", ["", "[]", "{}", '{"role": "user"}', "[" * 100_000])
def test_malformed_message_is_data_loss(data: str) -> None:
    with pytest.raises(DataLoss):
        message_from_json(data, "")


STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "extend", "replace", "undo", "assign", "run", "reopen"]), st.integers(0, 3)),
    max_size=25,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
async def test_history_operations_match_a_reference_model(
    steps: list[tuple[str, int]],
) -> None:
    sessions = SessionManager("memory")
    kept: list[tuple[str, str]] = []  # (run, text)
    here: list[tuple[str, str]] = []
    opened = sessions.open("me", "s", "poet")
    history = await opened.__aenter__()
    run = "r0"
    history.update_context(run)
    for count, (step, number) in enumerate(steps):
        added = [(run, f"{count}.{n}") for n in range(number)]
        messages = [ChatMessage("user", text) for _, text in added]
        match step:
            case "append" if messages:
                history.append(messages[0])
                kept, here = [*kept, added[0]], [*here, added[0]]
            case "extend":
                history.extend(messages)
                kept, here = [*kept, *added], [*here, *added]
            case "replace":
                history.replace_all(messages)
                kept, here = list(added), list(added)
            case "undo":
                history.undo(f"r{number}")
                kept = [entry for entry in kept if entry[0] != f"r{number}"]
                here = [entry for entry in here if entry[0] != f"r{number}"]
            case "assign" if here:
                history[-1] = ChatMessage("user", "local")
                here[-1] = ("", "local")
            case "run":
                run = f"r{number}"
                history.update_context(run)
            case "reopen":
                await opened.__aexit__(None, None, None)
                opened = sessions.open("me", "s", "poet")
                history = await opened.__aenter__()
                history.update_context(run)
                here = list(kept)
        assert texts(history) == [text for _, text in here]
        await history.flush()
        stored = await sessions.store.messages(KEY)
        assert [(each.message.run_id, each.message.content) for each in stored] == kept
    await opened.__aexit__(None, None, None)
    await sessions.close()


async def test_unavailable_store_is_an_error_and_the_next_run_succeeds(tmp_path: Path) -> None:
    place = tmp_path / "gone" / "sessions.db"
    sessions = SessionManager(str(place))
    agent, _ = poet(sessions, says("a"), says("b"))
    with pytest.raises(Unavailable, match="the session store is unavailable"):
        await agent.run_async("?")
    place.parent.mkdir()
    assert await agent.run_async("?") == "a"
    with sqlite3.connect(place) as database:
        assert database.execute("SELECT count(*) FROM archon_session_messages").fetchone() == (2,)
    await sessions.close()


async def test_changes_are_saved_all_or_nothing(store: SessionStore) -> None:
    version, _ = await store.open(KEY)
    version = await store.save(KEY, version, [HistoryChange("r", (ChatMessage("user", "1"),))])
    with pytest.raises(Aborted):
        await store.save(KEY, version - 1, [HistoryChange("r", (ChatMessage("user", "2"),))])
    assert texts(stored.message for stored in await store.messages(KEY)) == ["1"]
