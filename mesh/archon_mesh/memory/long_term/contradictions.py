"""Finds, when an entry is stored, the earlier entries that it contradicts: by rules, and by a judge if there is one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from archon.memory.long_term.contradiction import BECAUSE, CONTRADICTION, CONTRADICTS, OPEN
from archon.memory.long_term.entry import MAX_METADATA, LongTermEntry
from archon_mesh.core.claims import contradiction, may_contradict
from archon_mesh.core.words import content_words
from archon_mesh.memory.long_term.port import Filters, LongTermStore, StoredVector

COMPARED: Final = 10
"""Earlier entries that are found by words, and as many by vectors, with which a new one is compared."""

MAX_FOUND: Final = 5
"""Contradictions of one entry that are kept."""

JUDGED: Final = 3
"""Entries about which the judge is asked for one new entry, the nearest first."""

NEAR: Final = 0.6
"""Cosine from which on a judge is asked about two entries."""

MAX_BATCH: Final = 20
"""Entries of a batch above which none is compared: a batch is an import, not a finding."""

UNCOMPARED: Final = frozenset({"turn", "finding", "outcome", "summary"})
"""Types of entries of reports about one event, which are not compared."""

SUBJECT: Final = "subject"
PREDICATE: Final = "predicate"
"""Keys of metadata that say which fact an entry holds: two entries with the same pair contradict each other if their
texts differ."""

Judge = Callable[[str, str], Awaitable[bool]]
"""Says whether two texts contradict each other."""


async def marks_of(
    store: LongTermStore, tenant: str, entry: LongTermEntry, vector: StoredVector | None, judge: Judge | None = None
) -> dict[str, str]:
    """Returns the marks for an entry that contradicts earlier ones of the same user; empty if it contradicts none.
    Raises the errors of the store and of the judge."""
    has_key = SUBJECT in entry.metadata and PREDICATE in entry.metadata
    if not is_compared(entry.metadata) or not (has_key or judge is not None or may_contradict(entry.content)):
        return {}
    found: dict[str, str] = {}
    earlier, near = await _candidates(store, tenant, entry, vector)
    for other in earlier:
        if reason := reason_of(entry, other):
            found[other.id] = reason
    if judge is not None and not found:
        for other in near[:JUDGED]:
            if await judge(entry.content, other.content):
                found[other.id] = "a model says so"
    if not found or len(entry.metadata) > MAX_METADATA - 3:
        return {}
    reasons = ", ".join(dict.fromkeys(found.values()))
    return {CONTRADICTION: OPEN, CONTRADICTS: " ".join(list(found)[:MAX_FOUND]), BECAUSE: reasons}


def is_compared(metadata: Mapping[str, str]) -> bool:
    """Whether an entry with this metadata is compared with others."""
    return CONTRADICTION not in metadata and metadata.get("type", "") not in UNCOMPARED


def reason_of(entry: LongTermEntry, other: LongTermEntry) -> str:
    """Returns why two entries contradict each other by a rule; empty if none says that they do."""
    key, other_key = (tuple(each.metadata.get(name, "") for name in (SUBJECT, PREDICATE)) for each in (entry, other))
    if all(key) and key == other_key:
        same = " ".join(entry.content.split()).casefold() == " ".join(other.content.split()).casefold()
        return "" if same else f"two values of {key[1]} of {key[0]}"
    return contradiction(entry.content, other.content)


async def _candidates(
    store: LongTermStore, tenant: str, entry: LongTermEntry, vector: StoredVector | None
) -> tuple[list[LongTermEntry], list[LongTermEntry]]:
    """Returns the active entries of the same user that share words, a key or a direction with the new one; and, of
    these, the near ones."""
    user = entry.metadata.get("user")
    filters: dict[str, str] = {} if user is None else {"user": user}
    found: Sequence[LongTermEntry] = []
    if SUBJECT in entry.metadata and PREDICATE in entry.metadata:
        key = {name: entry.metadata[name] for name in (SUBJECT, PREDICATE)}
        found = await store.recent(tenant, COMPARED, Filters({**filters, **key}))
    by_words = await store.with_words(tenant, content_words(entry.content), COMPARED, Filters(filters))
    by_vector = [] if vector is None else await store.nearest(tenant, vector, COMPARED, Filters(filters))
    near = [other for other, cosine in by_vector if cosine >= NEAR]
    every = {other.id: other for other in [*found, *by_words, *(other for other, _ in by_vector)]}

    def is_other(other: LongTermEntry) -> bool:
        same_user = other.metadata.get("user") == user
        return other.id != entry.id and same_user and other.metadata.get("type", "") not in UNCOMPARED

    return [each for each in every.values() if is_other(each)], [each for each in near if is_other(each)]
