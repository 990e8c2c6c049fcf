"""The records of a plan's journal: the query, the plan that it began with, the events of its run, the answers of
people, and the answer of the agent.

A record is a JSON array: the version, the kind, and the content.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from archon.errors import ArchonError, DataLoss, InvalidArgument
from archon_mesh.core.media import Audio, EmbeddedResource, Media
from archon_mesh.engine import events as ev
from archon_mesh.engine.event_codec import EventCodec
from archon_mesh.engine.plan import SubTask, Task
from archon_mesh.planning.journal import JournalMismatch, PlanJournal
from archon_mesh.tools.image import Image

VERSION: Final = 1
"""The version of the records. A later one reads those before."""

MAX_VALUE_BYTES: Final = 64 << 20
"""Bytes of one value: the result of a subtask, or a value of a plan's context."""

_BEGIN, _PLAN, _EVENTS, _ANSWERED, _SPENT, _END = "begin", "plan", "events", "answered", "spent", "end"
_MARK: Final = "$archon"
"""The only key of an object that stands for something else: a file, or an object with this key itself."""

_FILES: Final = {cls.__name__: cls for cls in (Media, Audio, EmbeddedResource, Image)}


@dataclass(frozen=True, slots=True)
class Asked:
    """The request that a journal is for. Two are equal if one journal serves both. `request` names the workflow and its
    arguments; `mode` and `reason` say how the query is answered, as it was decided first."""

    query: str
    context: Mapping[str, Any] = field(default_factory=dict)
    request: str = ""
    mode: str = field(default="", compare=False)
    reason: str = field(default="", compare=False)


@dataclass(slots=True)
class StoredPlan:
    """The content of a journal. `events` are pairs of an event and its time. `answers` are people's, by question;
    `spent` is the spending of a budget; `answer` is the agent's, None before the end."""

    asked: Asked | None = None
    plan: Task | None = None
    events: list[tuple[ev.Event, float]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    spent: tuple[int, ...] = ()
    answer: str | None = None


class PlanRecords:
    """The records of one plan, in a journal that it takes for itself. Added records are durable after `flush`."""

    def __init__(self, journal: PlanJournal) -> None:
        """Opens the journal. Raises the errors of `PlanJournal.open`, DataLoss if a record cannot be read, and
        JournalMismatch if a newer version wrote it."""
        self._journal = journal
        self._codec = EventCodec(to_json, from_json)
        self._waiting: list[bytes] = []
        self.spent: Callable[[], Sequence[int]] | None = None
        """Returns the spending of a budget so far, which is noted with other records."""

        self._noted: tuple[int, ...] = ()
        self.stored = StoredPlan()
        """The content of the journal when it was opened."""

        records = journal.open()
        try:
            for number, record in enumerate(records, 1):
                self._read(number, record)
        except BaseException:
            journal.close()
            raise

    def begin(self, asked: Asked) -> None:
        """Notes the request; durable at once."""
        context = {key: to_json(value) for key, value in asked.context.items()}
        self._note(_BEGIN, [asked.query, context, asked.request, asked.mode, asked.reason])
        self.flush()

    def add_plan(self, task: Task) -> None:
        """Notes the plan that the execution begins with; durable at once. Raises InvalidArgument if it holds values
        that have no JSON form."""
        self._note(_PLAN, plan_to_values(task))
        self.flush()

    def add(self, events: Sequence[ev.Event], now: float) -> None:
        """Notes the events of one decision. Raises InvalidArgument if they hold values that have no JSON form."""
        try:
            text = self._codec.encode(events)
        except TypeError as error:
            raise InvalidArgument(f"a plan with a journal holds JSON values only: {error}") from None
        self._waiting.append(f'[{VERSION},"{_EVENTS}",{now!r},{text}]'.encode("utf-8", "surrogatepass"))

    def add_answer(self, asked: str, answer: Any) -> None:
        """Notes the answer of a person; durable at once."""
        self._note(_ANSWERED, [asked, answer])
        self.flush()

    def end(self, answer: str) -> None:
        """Notes the answer of the agent; durable at once."""
        self._note(_END, answer)
        self.flush()

    def flush(self) -> None:
        """Makes the added records durable. Raises the errors of `PlanJournal.append`; then it is not stored, and the
        plan must stop."""
        if self._waiting:
            if self.spent is not None and (spent := tuple(self.spent())) != self._noted:
                self._noted = spent
                self._note(_SPENT, spent)
            waiting, self._waiting = self._waiting, []
            self._journal.append(waiting)

    def close(self) -> None:
        """Releases the journal. Idempotent."""
        self._journal.close()

    def _note(self, kind: str, content: Any) -> None:
        text = json.dumps([VERSION, kind, content], separators=(",", ":"), ensure_ascii=False)
        self._waiting.append(text.encode("utf-8", "surrogatepass"))

    def _read(self, number: int, record: bytes) -> None:
        try:
            version, kind, *content = json.loads(record.decode("utf-8", "surrogatepass"))
            if version > VERSION:
                raise JournalMismatch(
                    "the journal was written by a newer version of Archon: use that version, or another journal"
                )
            self._fold(kind, content)
        except ArchonError:
            raise
        except Exception as error:  # whatever the bytes are
            raise DataLoss(
                f"record {number} of the journal cannot be read ({error!r}): restore the journal, or begin with another"
            ) from error

    def _fold(self, kind: str, content: list[Any]) -> None:
        stored = self.stored
        match kind:
            case "begin":
                query, context, request, mode, reason = content[0]
                read = {key: from_json(value) for key, value in context.items()}
                stored.asked = Asked(query, read, request, mode, reason)
            case "plan":
                stored.plan = plan_from_values(content[0])
            case "events":
                now, packed = content
                stored.events += [(event, now) for event in self._codec.read(packed)]
            case "answered":
                asked, answer = content[0]
                stored.answers[asked] = answer
            case "spent":
                stored.spent = self._noted = tuple(map(int, content[0]))
            case "end":
                (stored.answer,) = content
            case _:
                raise ValueError(f"unknown kind {kind!r}")


def checked_asked(asked: Asked, stored: StoredPlan) -> None:
    """Raises JournalMismatch if the journal is not for this request."""
    before = stored.asked
    if before is None or before == asked:
        return
    if before.query != asked.query:
        what = f"of another query, {before.query[:200]!r}"
    elif before.request != asked.request:
        what = f"of {_shown(before.request)}, not of {_shown(asked.request)}"
    else:
        what = "of the same query with another initial context"
    raise JournalMismatch(f"the journal is {what}: choose another journal for this one")


def _shown(request: str) -> str:
    return request[:200] or "a plan without a workflow"


def plan_to_values(task: Task) -> dict[str, Any]:
    """Returns a plan as a JSON value, with the statuses and results of its subtasks. Raises InvalidArgument."""
    steps = [{f.name: to_json(getattr(step, f.name)) for f in fields(SubTask)} for step in task.subtasks]
    return {
        "id": task.id,
        "original_query": task.original_query,
        "goal": task.goal,
        "subtasks": steps,
        "context": {key: to_json(value) for key, value in task.context.items()},
    }


def plan_from_values(values: Mapping[str, Any]) -> Task:
    """Returns the plan of `plan_to_values`; fields that are not known are left out."""
    known = {f.name for f in fields(SubTask)}
    steps = tuple(
        SubTask(**{name: from_json(value) for name, value in step.items() if name in known})
        for step in values["subtasks"]
    )
    context = {key: from_json(value) for key, value in values["context"].items()}
    return Task(values["id"], values["original_query"], values["goal"], steps, context)


def as_stored(value: Any, what: str) -> Any:
    """Returns a value as it will be read from the journal. `what` names it in errors. Raises InvalidArgument if it has
    no JSON form, or is too large."""
    try:
        text = json.dumps(to_json(value), ensure_ascii=False)
    except InvalidArgument as error:
        raise InvalidArgument(f"{what} cannot be kept in a journal: {error.message}") from None
    if len(text) > MAX_VALUE_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_VALUE_BYTES:
        raise InvalidArgument(f"{what} is larger than the {MAX_VALUE_BYTES >> 20} MiB that a journal keeps")
    return from_json(json.loads(text))


def to_json(value: Any) -> Any:
    """Returns a JSON value that stands for a value: text, a JSON value, or a file in it. A tuple becomes a list. Raises
    InvalidArgument for anything else."""
    try:
        return _written(value)
    except RecursionError:
        raise InvalidArgument("the value is nested too deep, or contains itself") from None


def _written(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str, int, float)):
        return str.__str__(value) if isinstance(value, str) else value
    if isinstance(value, Media):
        kind = type(value).__name__
        if _FILES.get(kind) is not type(value):
            raise InvalidArgument(f"{kind} is no file that a journal knows")
        held = {f.name: getattr(value, f.name) for f in fields(value) if f.init and f.name != "data"}
        return {_MARK: {"file": kind, **held, "data": base64.b64encode(value.data).decode()}}
    if isinstance(value, Mapping):
        written = {}
        for key, item in value.items():
            written[_key(key)] = _written(item)
        return {_MARK: {"object": written}} if set(written) == {_MARK} else written
    if isinstance(value, (list, tuple)):
        return [_written(item) for item in value]
    raise InvalidArgument(f"{type(value).__name__} is no JSON value")


def _key(key: Any) -> str:
    """Returns a key as JSON writes it. Raises InvalidArgument if JSON has no such key."""
    if isinstance(key, str):
        return str.__str__(key)
    if key is None or isinstance(key, (bool, int, float)):
        return str(json.loads(json.dumps({key: 0}, separators=(",", ":"))).popitem()[0])
    raise InvalidArgument(f"the key {key!r} is not a text")


def from_json(value: Any) -> Any:
    """Returns the value that a JSON value of `to_json` stands for."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {_MARK}:
        return {key: from_json(item) for key, item in value.items()}
    held = value[_MARK]
    if "object" in held:
        return {key: from_json(item) for key, item in held["object"].items()}
    named = {key: item for key, item in held.items() if key not in ("file", "data")}
    return _FILES[held["file"]](base64.b64decode(held["data"]), **named)
