"""The memories that one run recalls, and the messages that its requests get."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from typing import Final

from archon.failure_kinds import TOKEN_BUDGET
from archon.memory.long_term.context import RECENT_TURNS, build_query, estimate_tokens, memory_line
from archon.memory.long_term.entry import MAX_LIMIT, LongTermEntry, Source
from archon_mesh.core.compaction import is_summary
from archon_mesh.core.messages import ORIGIN, ChatMessage
from archon_mesh.memory.automatic.access import LongTerm, MemoryAccess
from archon_mesh.memory.automatic.added_messages import AddedMessages
from archon_mesh.memory.automatic.entries import PREFERENCE, TURN, answer_text, turn_start
from archon_mesh.memory.automatic.owner import Owner
from archon_mesh.memory.automatic.settings import MemorySettings

_log = logging.getLogger(__name__)

MEMORY: Final = "memory"
"""The origin of a message that is a memory."""

MAX_PREFERENCES: Final = 20
"""Preferences of a request, the newest."""

MAX_FOLLOW_UP: Final = 4
"""Words up to which a query without a history is taken for a follow-up to an earlier turn."""


class Recall:
    """The memories of one run, read once, before its first request: preferences of the user, and the matches of the
    query and the newest messages. A memory that was down is not asked again in this run."""

    def __init__(self, access: MemoryAccess, settings: MemorySettings, owner: Owner, query: str) -> None:
        self._access = access
        self._settings = settings
        self.owner = owner
        self.query = query
        self.is_down = False
        self.preferences: list[LongTermEntry] = []
        self.shown: dict[str, LongTermEntry] = {}
        """The memories that were in a request of the run, by id."""
        self._found: list[LongTermEntry] = []
        self._before: list[LongTermEntry] = []
        self._added: AddedMessages | None = None
        self._reading: asyncio.Task[None] | None = None

    def begin(self, history: Sequence[ChatMessage]) -> None:
        """Begins to recall relevant entries: preferences, and the matches of the query. The run goes on meanwhile, with
        its other hooks and the connections of its tools; `ready` waits for the result.

        A query that refers to something before it, with no history, is searched together with the newest turns.
        """
        self._reading = asyncio.create_task(self._recall(_newest(history, self.query)), name="recall")

    async def ready(self) -> None:
        """Waits for the entries that `begin` recalls, within the limit for a memory that does not answer. Raises the
        errors of opening the memory."""
        if self._reading is not None:
            await asyncio.shield(self._reading)

    async def end(self) -> None:
        """Ends a recall that no model call waits for."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
            if not self._reading.cancelled():
                self._reading.exception()  # mark it as retrieved: `ready` has raised it, or the run has failed before

    async def _recall(self, turns: Sequence[str]) -> None:

        async def read(memory: LongTerm) -> list[LongTermEntry]:
            self.preferences = await memory.recent(MAX_PREFERENCES, self._filters(PREFERENCE))
            if not turns and is_follow_up(self.query):
                self._before = await self._newest_turns(memory)
            return await self._search(memory, turns or [entry.content for entry in reversed(self._before)])

        await self._read(read)

    def added(self, first_request: Sequence[ChatMessage]) -> AddedMessages:
        """Returns the messages for the run's requests beside its history, with the memories for the first request."""
        if self._added is None:
            self._added = AddedMessages(self.messages(first_request))
        return self._added

    def messages(self, request: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Returns the memories for a request as messages, each memory once, within the part of the budget for them.

        Memories that the messages of the request contain are left out.
        """
        room = int(self._settings.budget * self._settings.retrieved)
        said = [message.content for message in request]
        starts = [turn_start(message.content) for message in request if message.role == "user"]
        answers = {answer_text(message.content) for message in request if message.role == "assistant"}
        chosen: dict[str, LongTermEntry] = {}
        contents: set[str] = set()
        preferences_left = room // 2  # a user with many preferences must not displace everything else
        found = left_out = 0
        for entry in [*self.preferences, *self._found, *self._before]:
            is_preference = entry.metadata.get("type") == PREFERENCE
            line = memory_line(entry, time.time())
            cost = estimate_tokens(line) + 1
            if entry.content in contents:
                continue
            if cost > room or (is_preference and cost > preferences_left):
                left_out += 1
                continue
            if (not is_preference and found == self._settings.limit) or _is_said(entry, said, starts, answers):
                continue
            found += not is_preference
            preferences_left -= cost * is_preference
            room -= cost
            contents.add(entry.content)
            chosen.setdefault(entry.id, entry)
        self.shown.update(chosen)
        if left_out:
            _log.info("%d memories have no room in the budget of the request (%s)", left_out, TOKEN_BUDGET)
        return [
            # Not a system message: it repeats texts of users and tools.
            ChatMessage("user", memory_line(entry, time.time()), metadata={ORIGIN: MEMORY, "memory_id": entry.id})
            for entry in chosen.values()
        ]

    async def _read(self, read: Callable[[LongTerm], Awaitable[list[LongTermEntry]]]) -> None:
        found = await self._access.recall(read)
        if found is None:
            self.is_down = True
        else:
            self._found = found

    async def _search(self, memory: LongTerm, turns: Sequence[str]) -> list[LongTermEntry]:
        query = build_query(self.query, turns)
        if not query.strip():
            return []
        # More than are shown, because the newest turns, which the query contains, find themselves.
        limit = min(MAX_LIMIT, self._settings.limit + 2 * RECENT_TURNS)
        found = await memory.query(query, limit, self._settings.threshold, self._filters())
        if found and found[0].source is Source.RECENT:
            found = found[:RECENT_TURNS]  # nothing but their age speaks for them
        return [each.entry for each in found]

    async def _newest_turns(self, memory: LongTerm) -> list[LongTermEntry]:
        if self.owner.session:
            in_session = {**self._filters(TURN), "session": self.owner.session}
            if turns := await memory.recent(RECENT_TURNS, in_session):
                return turns
        return await memory.recent(RECENT_TURNS, self._filters(TURN))

    def _filters(self, kind: str = "") -> dict[str, str]:
        return {"user": self.owner.user, **({"type": kind} if kind else {})}


def is_follow_up(query: str) -> bool:
    """Tells whether a query seems to refer to something said before it."""
    return len(query.split()) <= MAX_FOLLOW_UP or _REFERENCE.search(query) is not None


def _newest(history: Iterable[ChatMessage], query: str) -> list[str]:
    """Returns the newest texts of the history besides the query, oldest first."""
    texts = [
        message.content
        for message in history
        if message.content.strip() and message.role != "system" and not is_summary(message) and message.content != query
    ]
    return texts[-RECENT_TURNS:]


def _is_said(entry: LongTermEntry, said: Sequence[str], starts: Sequence[str], answers: Set[str]) -> bool:
    if entry.metadata.get("type") == TURN:
        return any(entry.content.startswith(start) and entry.content[len(start) :] in answers for start in starts)
    return any(entry.content in text for text in said)


_REFERENCE: Final = re.compile(
    r"\b(?:its?|they|them|theirs?|he|she|him|his|hers?|the same|again|as before|last time)\b", re.I
)
