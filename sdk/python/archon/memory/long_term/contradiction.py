"""Contradictions among entries of long-term memory: the marks of a new entry, the list, and the decision of the owner.

The marks are metadata of the entry that was stored later, so that any store keeps them and `forget` removes them. A
contradiction is open while both entries exist and are active.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from archon.errors import FailedPrecondition, InvalidArgument, NotFound
from archon.memory.long_term.entry import DEFAULT_IMPORTANCE, LongTermEntry

CONTRADICTION: Final = "contradiction"
"""The key of metadata that says whether the entry contradicts earlier ones: `open`, or `decided` if the owner keeps it
beside them. A caller that gives it stores the entry without a comparison."""

CONTRADICTS: Final = "contradicts"
"""The key of metadata with the ids of the earlier entries, separated by spaces."""

BECAUSE: Final = "contradicts_because"
"""The key of metadata with the rule that found the contradiction, in a clause."""

OPEN: Final = "open"
DECIDED: Final = "decided"
MARKS: Final = (CONTRADICTION, CONTRADICTS, BECAUSE)

MAX_LISTED: Final = 200
"""Entries with an open mark that are looked at, the newest first."""


class Keep(StrEnum):
    """The owner's decision: the newer entry, the earlier ones, or all of them."""

    NEW = "new"
    OLD = "old"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Contradiction:
    """An entry, the earlier entries that it contradicts, oldest first, and why, in a clause."""

    entry: LongTermEntry
    earlier: tuple[LongTermEntry, ...]
    reason: str


class Entries(Protocol):
    """The methods of a long-term memory, local or remote, that this module uses."""

    async def recent(self, limit: int = ..., filters: Mapping[str, str] | None = None) -> list[LongTermEntry]: ...

    async def get(self, entry_id: str) -> LongTermEntry | None: ...

    async def delete(self, entry_id: str) -> bool: ...

    async def store(
        self,
        content: str,
        metadata: Mapping[str, str] | None = None,
        importance: float = ...,
        *,
        request_id: str = "",
    ) -> str: ...


def without_marks(metadata: Mapping[str, str]) -> dict[str, str]:
    """Returns metadata without the keys in MARKS, by which a contradiction is stored."""
    return {key: value for key, value in metadata.items() if key not in MARKS}


async def contradictions(
    memory: Entries, filters: Mapping[str, str] | None = None, limit: int = MAX_LISTED
) -> list[Contradiction]:
    """Returns the open contradictions, those with the newest entry first. Raises the errors of the memory."""
    found: list[Contradiction] = []
    for entry in await memory.recent(min(limit, MAX_LISTED), {**(filters or {}), CONTRADICTION: OPEN}):
        if (contradiction := await _open(memory, entry)) is not None:
            found.append(contradiction)
    return found


async def resolve_contradiction(memory: Entries, entry_id: str, keep: Keep, merged: str = "") -> list[str]:
    """Carries out the owner's decision about the contradiction of an entry, and returns the ids of the entries that are
    left. With `merged`, that text takes the place of all of them. A call that failed can be repeated.

    Raises NotFound if there is no such entry, FailedPrecondition if it has no open contradiction, InvalidArgument, and
    the errors of the memory."""
    entry = await memory.get(entry_id)
    if entry is None:
        raise NotFound(f"there is no entry {entry_id!r}", metadata={"entry_id": entry_id})
    contradiction = await _open(memory, entry)
    if contradiction is None:
        message = f"the entry {entry_id} contradicts no other entry, or its owner has decided"
        raise FailedPrecondition(message, metadata={"entry_id": entry_id})
    earlier = [each.id for each in contradiction.earlier]
    if merged:
        return [await _replace(memory, entry, merged, [*earlier, entry.id])]
    match Keep(keep):
        case Keep.OLD:
            await memory.delete(entry.id)
            return earlier
        case Keep.NEW:
            return [await _replace(memory, entry, entry.content, [*earlier, entry.id])]
        case Keep.BOTH:
            return [*earlier, await _replace(memory, entry, entry.content, [entry.id])]


async def _replace(memory: Entries, entry: LongTermEntry, content: str, gone: list[str]) -> str:
    """Stores a text first, and deletes the entries in whose place it is then: a failure in between loses nothing."""
    if not content.strip():
        raise InvalidArgument("the merged text is empty")
    metadata = {**without_marks(entry.metadata), CONTRADICTION: DECIDED}
    importance = max(entry.importance, DEFAULT_IMPORTANCE)
    new_id = await memory.store(content, metadata, importance, request_id=f"contradiction/{entry.id}")
    for each in gone:
        await memory.delete(each)
    return new_id


async def _open(memory: Entries, entry: LongTermEntry) -> Contradiction | None:
    if entry.metadata.get(CONTRADICTION) != OPEN or entry.archived:
        return None
    earlier = [await memory.get(each) for each in entry.metadata.get(CONTRADICTS, "").split()]
    active = [each for each in earlier if each is not None and not each.archived]
    if not active:
        return None
    ordered = tuple(sorted(active, key=lambda each: (each.create_time, each.id)))
    return Contradiction(entry, ordered, entry.metadata.get(BECAUSE, ""))
