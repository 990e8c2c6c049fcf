"""The middleware that recalls and stores without being asked."""

from __future__ import annotations

import logging
from typing import Any

from typing_extensions import override

from archon.agent import TaskContext
from archon.errors import ArchonError
from archon_mesh.agent.hooks.compaction import OFFLINE, ContextCompactionMiddleware
from archon_mesh.agent.hooks.context import HookContext
from archon_mesh.agent.hooks.middleware import Middleware, QueryCall
from archon_mesh.agent.state.agent_state import AgentState, current_state
from archon_mesh.agent.state.running_agent import RunningAgent
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import deadline
from archon_mesh.llm.base import ModelRequest, estimate_tokens
from archon_mesh.memory.automatic.access import LIMIT, LongTerm, MemoryAccess, OpenMemory
from archon_mesh.memory.automatic.assembly import within_history, working_memory
from archon_mesh.memory.automatic.entries import EndedRun, entries_of, summary_entry
from archon_mesh.memory.automatic.findings import drew_on
from archon_mesh.memory.automatic.owner import owner_of
from archon_mesh.memory.automatic.preferences import PROMPT, from_reply, preferences, same
from archon_mesh.memory.automatic.recall import Recall
from archon_mesh.memory.automatic.recorder import Recorder
from archon_mesh.memory.automatic.settings import MemorySettings

MODEL_TIMEOUT = 10.0
"""Seconds that the end of a run waits for the model that is asked for preferences."""

_log = logging.getLogger(__name__)


class MemoryMiddleware(Middleware):
    """Gives an agent a long-term memory: relevant entries are in each request, and each run leaves its turn, the
    results of tools that mattered, its outcome, and the user's preferences.

        async with LongTermMemory(SqliteLongTermStore(file)) as memory:
            agent = Agent("clerk", user_id="ana").use(MemoryMiddleware(memory))

    `memory` is an open LongTermMemory or LongTermMemoryClient, or a function that creates one, such as `open_memory`:
    that one is opened by the first run and closed with the agent. A memory that does not answer costs a run about two
    seconds, and never fails it; entries that it could not take wait in this process. A run whose user is unknown, as
    `owner_of` describes, neither recalls nor stores anything.
    """

    def __init__(
        self, memory: LongTerm | OpenMemory, settings: MemorySettings | None = None, *, limit: float = LIMIT
    ) -> None:
        """`limit` is in seconds: how long a run waits for a memory that does not answer."""
        self.settings = settings or MemorySettings()
        self._access = MemoryAccess(memory, limit=limit)
        self._recorder = Recorder(self._access)
        self._runs: dict[str, Recall] = {}
        """The runs in progress, by id."""

    def compaction(
        self, max_context_tokens: int = 200_000, threshold: float = 0.7, **options: Any
    ) -> ContextCompactionMiddleware:
        """Returns a compaction that summarises the oldest turns at `threshold` of the window, and stores the summaries
        in this memory. Register it before this middleware. Further options are as in ContextCompactionMiddleware."""
        return ContextCompactionMiddleware(
            max_context_tokens,
            threshold=threshold,
            compaction_strategy="summarisation",
            on_summary=self.keep_summary,
            **options,
        )

    @property
    def waiting(self) -> int:
        """The number of entries that wait in this process until the memory takes them."""
        return self._recorder.waiting

    async def flush(self) -> None:
        """Tries once more to store the waiting entries. Never raises."""
        await self._recorder.flush()

    @override
    async def close(self) -> None:
        await self._recorder.flush()
        await self._access.close()

    @override
    async def wrap_query(self, state: AgentState, message: str, call: QueryCall) -> str:
        owner = owner_of(state)
        if owner is None:
            _log.debug("%s: the user is unknown, nothing is recalled or stored", state.agent_name)
            return await call()
        recall = self._runs[state.run_id] = Recall(self._access, self.settings, owner, message)
        try:
            recall.begin(state.history)
            answer = await call()
            await recall.ready()
        except Exception as error:
            await recall.end()
            await self._store(state, recall, "", f"{type(error).__name__}: {error}"[:300])
            raise
        finally:
            await recall.end()
            del self._runs[state.run_id]
        await self._store(state, recall, answer)
        await self._rate(recall, answer)
        return answer

    @override
    async def before_model(self, hook: HookContext) -> None:
        recall = self._runs.get(hook.state.run_id)
        if recall is None or hook.params is None:
            return
        await recall.ready()
        settings, messages, history = self.settings, hook.params.messages, hook.state.history
        if not any(_is_compaction(each) for each in hook.agent.registered):
            history_budget = int(settings.budget * settings.history)
            messages[:] = within_history(messages, history, hook.state.run_id, history_budget)
        added = recall.added(messages)
        if settings.working_memory:
            system = sum(estimate_tokens(message.content) for message in messages if message.role == "system")
            budget = int(settings.budget * settings.template) - system
            added.show(working_memory(hook.state.global_storage, budget), history, budget)
        added.insert_into(messages)

    async def keep_summary(self, agent: RunningAgent, text: str) -> None:
        """Stores a summary of turns that a compaction has replaced. Never raises."""
        state = current_state()
        owner = owner_of(state) if state is not None and state.agent is agent else None
        if state is None or owner is None:
            return
        recall = self._runs.get(state.run_id)
        await self._recorder.store([summary_entry(owner, text)], is_down=recall is not None and recall.is_down)

    async def _store(self, state: AgentState, recall: Recall, answer: str, error: str = "") -> None:
        told = [
            text
            for text in await self._preferences(state, recall.query)
            if not any(same(text, known.content) for known in recall.preferences)
        ]
        messages = [message for message in state.history if message.run_id == state.run_id]
        run = EndedRun(recall.owner, _key(state, has_failed=bool(error)), recall.query, answer, messages, error)
        await self._recorder.store(entries_of(run, told), is_down=recall.is_down)

    async def _preferences(self, state: AgentState, query: str) -> list[str]:
        found = preferences(query)
        model = state.agent.model if self.settings.ask_model and not found and query.strip() else None
        if model is None or model.model == OFFLINE:
            return found
        prompt = ChatMessage("user", f"{PROMPT}{query[:4_000]}")
        try:
            return from_reply((await deadline.generate(model, ModelRequest((prompt,), timeout=MODEL_TIMEOUT))).text)
        except ArchonError as error:
            _log.warning("%s: the model was not asked for preferences: %s", state.agent_name, error)
            return []

    async def _rate(self, recall: Recall, answer: str) -> None:
        """Counts the memories of whose facts the answer made use as useful."""
        used = [entry.id for entry in recall.shown.values() if drew_on(answer, recall.query, entry.content)]
        if not used or recall.is_down:
            return

        async def rate(memory: LongTerm) -> None:
            for entry_id in used:
                await memory.feedback(entry_id, True)

        await self._access.recall(rate)


def _is_compaction(registered: object) -> bool:
    return isinstance(registered, ContextCompactionMiddleware) and registered.auto_compact


def _key(state: AgentState, *, has_failed: bool) -> str:
    """Returns the same key for all attempts at a task of the mesh that complete; elsewhere no run is repeated."""
    task = state.context.get("task")
    if not isinstance(task, TaskContext) or state.parent is not None:
        return state.run_id
    return f"{task.task_id}/{task.attempt}" if has_failed else task.task_id
