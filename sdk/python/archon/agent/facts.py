"""Facts that the tasks of a run have established: `TaskContext.facts`.

A fact is a value of the run's working memory under `fact.KEY`: the value that counts, who has established and
confirmed it, and the values that contradict it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol

from archon.agent.shared import MAX_UPDATES, SharedConnection, SharedContext
from archon.agent.values import Answer, Delegated
from archon.answers import agree
from archon.errors import Aborted, ArchonError, InvalidArgument, ResourceExhausted
from archon.json_text import json_object
from archon.types.message_content import InformationShare
from archon.types.part import Part
from archon.types.verdict import Verdict

_log = logging.getLogger(__name__)

Outcome = Literal["established", "confirmed", "contradicted"]

PREFIX: Final = "fact."
"""Keys of working memory that hold facts begin with it."""

ARBITER_KEY: Final = "dev.archon.facts/arbiter"
"""The key of a run's metadata that names the role which settles contradictions."""

CONFLICT_TYPE: Final = "application/vnd.archon.conflict+json"
"""The media type of the part in which a delegation has the answers that an arbiter chooses from."""

MAX_FACT_BYTES: Final = 16 * 1024
"""Bytes of the value of a fact, as JSON in UTF-8."""

MAX_FACT_KEY: Final = 200
"""Characters of the key of a fact."""

MAX_CONTRADICTIONS: Final = 20
"""Contradictions that a fact keeps; the oldest ones that are settled make room."""

MAX_CONFIRMED: Final = 100
"""Tasks that a fact counts as having confirmed it."""

MAX_CUT: Final = 1_000
"""Characters that are kept of a contradicting value above MAX_FACT_BYTES."""

READ_SECONDS: Final = 1.0
"""Seconds in which the facts must be read that an answer is compared with."""

ARBITER_SECONDS: Final = 600.0
"""Seconds that an arbiter has for a contradiction."""

_NOT_WORDS: Final = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A value that contradicts a fact, and the task that has it. `status` is `open`, or how it was settled: `kept` if
    the fact stayed, `replaced` if it was changed, with the way and the reason of the arbiter."""

    value: Any
    role: str
    task_id: str
    status: Literal["open", "kept", "replaced"] = "open"
    way: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact: its value, the task that has established it, and the tasks that have confirmed it."""

    key: str
    value: Any
    role: str
    task_id: str
    confirmed_by: tuple[str, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()

    @property
    def is_contested(self) -> bool:
        """Whether a contradiction is open."""
        return any(each.status == "open" for each in self.contradictions)


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of comparing a value with a fact; `contradiction` is its record if they differ."""

    fact: Fact
    outcome: Outcome
    contradiction: Contradiction | None = None


class FactTask(Protocol):
    """The part of a TaskContext that facts use."""

    role: str

    @property
    def task_id(self) -> str: ...

    @property
    def metadata(self) -> Mapping[str, str]: ...

    def remaining(self) -> float | None: ...

    async def send(self, content: object, *, message_id: str) -> str: ...

    async def delegate(self, input: Sequence[Part], *, role: str, memo_key: str, timeout: float) -> Delegated: ...


class Facts:
    """The facts of a run, as one of its tasks sees them. Keys are the same if they have the same words: `Bridge length`
    is `bridge_length`.

    Calls raise Unavailable or DeadlineExceeded if the memory service is unreachable, InvalidArgument for a key that has
    no words or more than 200 characters, and for a value that is no JSON value.
    """

    def __init__(self, task: FactTask, shared: SharedContext) -> None:
        self._task = task
        self._shared = shared

    async def establish(self, key: str, value: Any, *, arbiter: str = "") -> Finding:
        """Establishes a fact, if there is none with the key; otherwise compares the value with it. A value that agrees
        confirms the fact: a number of the same unit within 5 %, the same text but for case, white space and punctuation
        around it, the same JSON value. A later attempt of the task counts once.

        A value that differs is recorded, and tasks that have subscribed to `information_share` receive it. The role
        `arbiter` is asked which value is right, by default the one that the run's metadata names; without one, or if it
        does not decide within 600 s, the contradiction stays open, and the fact as it is.

        Raises ResourceExhausted for a value above 16 KiB, or if 20 contradictions of the fact are open.
        """
        checked_value(value)
        return await self._compared(key, value, arbiter, establishes=True)

    async def check(self, result: Mapping[str, Any], *, arbiter: str = "") -> list[Finding]:
        """Compares the members of a JSON object with the facts that they name, as `establish` does, and returns the
        findings; others are left out. A value above 16 KiB is recorded by its beginning."""
        known = {name_of(fact.key) for fact in await self.list()} if result else set()
        named = {key: value for key, value in result.items() if name_of(key) in known}
        return [await self._compared(key, _short(value), arbiter, establishes=False) for key, value in named.items()]

    async def get(self, key: str) -> Fact | None:
        """Returns the fact of a key; None if there is none, or if its value is not one that `Facts` has written."""
        current = await self._shared.get_value(_key_of(key))
        return None if current is None else _fact_of(current.value)

    async def list(self) -> Sequence[Fact]:
        """Returns all facts, in the order of their keys."""
        values = await self._shared.list(PREFIX)
        return [fact for value in values.values() if (fact := _fact_of(value)) is not None]

    async def _compared(self, key: str, value: Any, arbiter: str, *, establishes: bool) -> Finding:
        task = self._task
        found: list[Outcome] = []

        def change(fact: Fact | None) -> Fact:
            found.clear()
            if fact is None:
                found.append("established")
                return Fact(key, value, task.role, task.task_id)
            if same(fact.value, value):
                found.append("established" if fact.task_id == task.task_id and establishes else "confirmed")
                is_known = task.task_id in (fact.task_id, *fact.confirmed_by)
                if is_known or len(fact.confirmed_by) >= MAX_CONFIRMED:
                    return fact
                return replace(fact, confirmed_by=(*fact.confirmed_by, task.task_id))
            found.append("contradicted")
            if _contradiction(fact, task.task_id, value) is not None:
                return fact
            added = Contradiction(value, task.role, task.task_id)
            return replace(fact, contradictions=_with_room(fact.contradictions, added))

        fact = await self._update(key, change)
        (outcome,) = found
        if outcome != "contradicted":
            return Finding(fact, outcome)
        contradiction = _contradiction(fact, task.task_id, value)
        assert contradiction is not None
        await self._tell(fact, contradiction)
        arbiter = arbiter or task.metadata.get(ARBITER_KEY, "")
        if arbiter and contradiction.status == "open" and arbiter != task.role:
            fact = await self._settled(fact, contradiction, arbiter)
            contradiction = _contradiction(fact, task.task_id, value) or contradiction
        return Finding(fact, outcome, contradiction)

    async def _update(self, key: str, change: Callable[[Fact | None], Fact]) -> Fact:
        stored = _key_of(key)
        for tried in range(1, MAX_UPDATES + 1):
            current = await self._shared.get_value(stored)
            before = None if current is None else _fact_of(current.value)
            after = change(before)
            if after == before:
                return after
            try:
                await self._shared.set(stored, _stored(after), 0 if current is None else current.version)
                return after
            except Aborted:
                if tried == MAX_UPDATES:
                    raise
            await asyncio.sleep(random.uniform(0.0, min(0.001 * 2**tried, 0.1)))
        raise AssertionError("unreachable")

    async def _tell(self, fact: Fact, contradiction: Contradiction) -> None:
        """Tells the subscribers once. A message that is refused is no failure: the record is in the fact."""
        value = {
            "established": fact.value,
            "by": fact.role,
            "contradicted": contradiction.value,
            "contradicted_by": contradiction.role,
        }
        digest = hashlib.sha256(f"{name_of(fact.key)}\n{_text(contradiction.value)}".encode()).hexdigest()[:32]
        try:
            await self._task.send(InformationShare(f"contradiction: {fact.key}", value), message_id=f"fact-{digest}")
        except ArchonError as error:
            _log.info("a contradiction of %r is not told to other tasks: %s", fact.key, error)

    async def _settled(self, fact: Fact, contradiction: Contradiction, arbiter: str) -> Fact:
        """Has a role decide. If it does not, the contradiction stays open, with the reason."""
        answers = [("established", fact.role, fact.value), ("contradicted", contradiction.role, contradiction.value)]
        question = f"Two tasks contradict each other about {fact.key!r}. Which value is right?"
        text = "\n\n".join([question, *(f"{name} by {role}:\n{_text(value)}" for name, role, value in answers)])
        conflict = {
            "question": question,
            "answers": [{"step": name, "role": role, "answer": _text(value)} for name, role, value in answers],
        }
        parts = [
            Part(text=f"{text}\n\nReply with the right value alone."),
            Part(data_json=json.dumps(conflict, ensure_ascii=False), media_type=CONFLICT_TYPE),
        ]
        digest = hashlib.sha256(f"{text}\n{arbiter}".encode()).hexdigest()[:32]
        left = self._task.remaining()
        limit = ARBITER_SECONDS if left is None else min(ARBITER_SECONDS, left)
        try:
            reply = await self._task.delegate(parts, role=arbiter, memo_key=f"fact-{digest}", timeout=limit)
        except ArchonError as error:
            settled = replace(contradiction, reason=f"{arbiter} has not decided: {error}"[:500])
            value = fact.value
        else:
            verdict = Verdict.in_metadata(reply.metadata)
            way, reason = (verdict.way, verdict.reason[:500]) if verdict is not None else (arbiter, "")
            value = _decided(reply.text, fact.value, contradiction.value)
            is_kept = same(value, fact.value)
            settled = replace(contradiction, status="kept" if is_kept else "replaced", way=way, reason=reason)

        def change(now: Fact | None) -> Fact:
            now = now or fact
            others = [settled if _is(each, contradiction) else each for each in now.contradictions]
            if settled.status == "replaced" and same(now.value, fact.value):
                now = replace(now, value=value, role=contradiction.role, task_id=contradiction.task_id, confirmed_by=())
            return replace(now, contradictions=tuple(others))

        return await self._update(fact.key, change)


async def check_outcome(outcome: object, at_hand: Callable[[], tuple[Facts, SharedConnection] | None]) -> None:
    """Compares the answer of a task, if it is one JSON object, with the facts that its members name. The server calls
    it. Never raises an ArchonError: an answer counts whether its facts could be read or not."""
    result = _object_of(outcome)
    if not result:
        return
    if (shares := at_hand()) is None:
        return
    facts, connection = shares
    try:
        async with asyncio.timeout(READ_SECONDS):
            known = {name_of(fact.key) for fact in await facts.list()}
    except (ArchonError, TimeoutError):
        connection.pause_checks(time.monotonic())
        return
    named = {key: value for key, value in result.items() if name_of(key) in known}
    try:
        await facts.check(named)
    except ArchonError as error:
        _log.warning("an answer is not compared with the facts of its run: %s", error)


def checked_value(value: Any) -> Any:
    """Returns a value. Raises InvalidArgument if it is no JSON value, ResourceExhausted above MAX_FACT_BYTES."""
    try:
        size = len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"a fact is a JSON value: {error}") from None
    if size > MAX_FACT_BYTES:
        raise ResourceExhausted(f"a fact has at most {MAX_FACT_BYTES:,} bytes as JSON, not {size:,}")
    return value


def _short(value: Any) -> Any:
    try:
        return checked_value(value)
    except ResourceExhausted:
        return _text(value)[:MAX_CUT]


def same(one: Any, other: Any) -> bool:
    """Returns whether two values say the same, by the rule that votes are counted by."""
    return agree(_text(one), _text(other))


def name_of(key: str) -> str:
    """Returns the words of a key, in lower case."""
    return _NOT_WORDS.sub(" ", key.casefold()).strip()


def _key_of(key: str) -> str:
    name = name_of(key) if isinstance(key, str) else ""
    if not name or len(key) > MAX_FACT_KEY:
        raise InvalidArgument(f"the key of a fact has words, and at most {MAX_FACT_KEY} characters, not {key!r:.100}")
    return PREFIX + name[:MAX_FACT_KEY]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _is(one: Contradiction, other: Contradiction) -> bool:
    return one.task_id == other.task_id and same(one.value, other.value)


def _contradiction(fact: Fact, task_id: str, value: Any) -> Contradiction | None:
    wanted = Contradiction(value, "", task_id)
    return next((each for each in fact.contradictions if _is(each, wanted)), None)


def _with_room(known: Sequence[Contradiction], added: Contradiction) -> tuple[Contradiction, ...]:
    kept = list(known)
    while len(kept) >= MAX_CONTRADICTIONS:
        settled = next((each for each in kept if each.status != "open"), None)
        if settled is None:
            raise ResourceExhausted(f"{MAX_CONTRADICTIONS} contradictions of the fact are open")
        kept.remove(settled)
    return (*kept, added)


def _decided(reply: str, established: Any, contradicting: Any) -> Any:
    """The value that a reply names: one of the two, or another one."""
    for value in (established, contradicting):
        if agree(reply, _text(value)):
            return value
    return reply.strip()


def _object_of(outcome: object) -> dict[str, Any] | None:
    if isinstance(outcome, str):
        return json_object(outcome) if outcome.lstrip().startswith("{") else None
    if not isinstance(outcome, Answer):
        return None
    if outcome.text:
        return _object_of(outcome.text) if not outcome.parts else None
    texts = [part.data_json or part.text or "" for part in outcome.parts]
    return _object_of(texts[0]) if len(texts) == 1 else None


def _stored(fact: Fact) -> dict[str, Any]:
    contradictions = [
        {key: getattr(each, key) for key in Contradiction.__dataclass_fields__} for each in fact.contradictions
    ]
    return {
        "key": fact.key,
        "value": fact.value,
        "role": fact.role,
        "task_id": fact.task_id,
        "confirmed_by": list(fact.confirmed_by),
        "contradictions": contradictions,
    }


def _fact_of(value: Any) -> Fact | None:
    """The fact in a stored value; None if another program has written something else."""
    try:
        contradictions = tuple(Contradiction(**each) for each in value["contradictions"])
        confirmed = tuple(map(str, value["confirmed_by"]))
        return Fact(value["key"], value["value"], value["role"], value["task_id"], confirmed, contradictions)
    except (KeyError, TypeError, AttributeError):
        return None
