"""Items of a work list: as a member takes them, and as they are stored."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from archon.errors import InvalidArgument, LeaseExpired, ResourceExhausted

MAX_ITEMS: Final = 1_000
"""Items of one list."""

MAX_ITEM_BYTES: Final = 16 * 1024
"""Bytes of an item, as JSON in UTF-8."""

MAX_RESULT_BYTES: Final = 32 * 1024
"""Bytes of the result of an item, as JSON in UTF-8."""

MAX_ITEM_ID: Final = 100
"""Characters of the id of an item."""

MAX_ERROR: Final = 500
"""Characters of the error of an item; the rest is cut."""

MAX_TRIES: Final = 20
"""The most tries that a list may allow for an item."""

FREE: Final = "free"
HELD: Final = "held"
DONE: Final = "done"
FAILED: Final = "failed"
_STATES: Final = frozenset({FREE, HELD, DONE, FAILED})
_ID: Final = re.compile(rf"[^\x00-\x1f/]{{1,{MAX_ITEM_ID}}}")


@dataclass(frozen=True, slots=True)
class WorkItem:
    """An item that a member holds. `number` is its place in the list, from 1 on, of `total` items when it was taken;
    `tries` counts how often it was given out, this time included. `member` is the one that holds it."""

    id: str
    value: Any
    number: int
    total: int
    tries: int
    member: str


@dataclass(frozen=True, slots=True)
class WorkResults:
    """The results of a list. `failed` has the last error of each item that failed in every try; `open` the ids of the
    items that have not ended. All are in the order of the list."""

    done: Mapping[str, Any]
    failed: Mapping[str, str]
    open: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """Who holds an item: an attempt of a task, by its name for this list, and the number of the try."""

    task_id: str
    attempt: int
    member: str
    tries: int


@dataclass(frozen=True, slots=True)
class Entry:
    """An item as it is stored. `claim` names the member that holds it, or has ended it; `failed_by` has the
    tasks that it failed in."""

    value: Any
    most_tries: int
    state: str = FREE
    tries: int = 0
    claim: Claim | None = None
    failed_by: tuple[str, ...] = ()
    result: Any = None
    error: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether the item is done or has failed for good. It stays so."""
        return self.state in (DONE, FAILED)

    def held_by(self, claim: Claim) -> Entry:
        """Returns the entry of an item that is given out."""
        return replace(self, state=HELD, tries=claim.tries, claim=claim)

    def done(self, result: Any) -> Entry:
        """Returns the entry with its final state and the result of its item."""
        return replace(self, state=DONE, result=result, error="")

    def failed(self, error: str, *, is_final: bool) -> Entry:
        """Returns the entry of an item whose try has failed: it is free again, unless it was the last one."""
        by = (*self.failed_by, self.claim.task_id)[-MAX_TRIES:] if self.claim is not None else self.failed_by
        state = FAILED if is_final or self.tries >= self.most_tries else FREE
        return replace(self, state=state, error=error[:MAX_ERROR], failed_by=by)

    def to_value(self) -> dict[str, Any]:
        """Returns the JSON value that is stored."""
        value: dict[str, Any] = {"item": self.value, "most": self.most_tries, "state": self.state, "tries": self.tries}
        if self.claim is not None:
            claim = self.claim
            value["claim"] = [claim.task_id, claim.attempt, claim.member, claim.tries]
        if self.failed_by:
            value["failed_by"] = list(self.failed_by)
        if self.state == DONE:
            value["result"] = self.result
        if self.error:
            value["error"] = self.error
        return value


def entry_of(value: Any) -> Entry | None:
    """Returns the entry in a stored value; None if it is not one, as another program may have written it."""
    try:
        claim = value.get("claim")
        entry = Entry(
            value["item"],
            value["most"],
            value["state"],
            value["tries"],
            None if claim is None else Claim(*claim),
            tuple(value.get("failed_by", ())),
            value.get("result"),
            value.get("error", ""),
        )
    except (AttributeError, KeyError, TypeError):
        return None
    is_valid = entry.state in _STATES and type(entry.tries) is int and type(entry.most_tries) is int
    return entry if is_valid and (entry.state != HELD or entry.claim is not None) else None


@dataclass(slots=True)
class ListedItems:
    """New items of a list, by id."""

    values: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, items: Mapping[str, Any] | Iterable[Any]) -> ListedItems:
        """Returns the items by id. Raises InvalidArgument for an id or a value that is not valid, ResourceExhausted for
        more than MAX_ITEMS or a value above MAX_ITEM_BYTES."""
        pairs = items.items() if isinstance(items, Mapping) else ((_digest(value), value) for value in items)
        listed = cls()
        for id_, value in pairs:
            if not isinstance(id_, str) or _ID.fullmatch(id_) is None:
                raise InvalidArgument(
                    f"invalid id of an item {id_!r}: 1 to {MAX_ITEM_ID} characters without '/' and control characters"
                )
            check_bytes(value, MAX_ITEM_BYTES, f"the item {id_!r}")
            listed.values.setdefault(id_, json.loads(_encoded(value)))
            if len(listed.values) > MAX_ITEMS:
                raise too_many_items()
        return listed


def check_bytes(value: Any, most: int, noun: str) -> None:
    """Raises InvalidArgument if a value is no JSON value, ResourceExhausted if it has more than `most` bytes."""
    size = len(_encoded(value))
    if size > most:
        raise ResourceExhausted(
            f"{noun} has {size:,} bytes as JSON, at most {most:,}: pass large content by a key of task.shared",
            metadata={"size": str(size), "limit": str(most)},
        )


def too_many_items() -> ResourceExhausted:
    """The list has no room for the items. Trying again does not help."""
    return ResourceExhausted(f"a work list has at most {MAX_ITEMS:,} items", metadata={"limit": str(MAX_ITEMS)})


def not_held(item: WorkItem, entry: Entry) -> LeaseExpired:
    """Returns the refusal of a member that ends an item which it does not hold."""
    holder = {FREE: "no member has it", HELD: "another member has it"}.get(entry.state, f"it is {entry.state} already")
    return LeaseExpired(
        f"this member does not hold the item {item.id!r} of the work list: {holder}",
        metadata={"item": item.id, "state": entry.state},
    )


def _digest(value: Any) -> str:
    return hashlib.sha256(_encoded(value)).hexdigest()[:16]


def _encoded(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"items and results are JSON values: {error}") from None
