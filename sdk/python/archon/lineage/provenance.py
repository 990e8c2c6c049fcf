"""The provenance of answers: everything that they rest on, back to the goal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from archon.api.common.v1 import question_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import InvalidArgument
from archon.lineage.quotation import QuotedSource, sources_of_quote
from archon.lineage.run import RunLineage
from archon.lineage.source import Link, Source, SourceKind
from archon.lineage.uses import INPUT_PREFIX, TaskLineage, UseKind
from archon.types.memory_ref import MemoryRef
from archon.types.run_event import RunEvent
from archon.types.run_record import RunRecord
from archon.types.task_state import TaskState
from archon.wire import text_of

GOAL_ID: Final = "goal"

_HOW: Final = {
    UseKind.ANSWER: "used its answer",
    UseKind.DELEGATION: "delegated to it",
    UseKind.ARGUMENT: "its tool's arguments are made of it",
    UseKind.CANDIDATE: "was chosen from it and others",
    UseKind.AWARD: "it says who executes",
    UseKind.MESSAGE: "read it",
    UseKind.PLAN: "it planned the step",
    UseKind.RESULT: "planned with it",
}


@dataclass(frozen=True, slots=True)
class Provenance:
    """The sources of one answer. The first of the `sources` is the answer itself. `unread` are those that were
    delivered to it, or to an answer that it rests on, and that the receiver does not name as used."""

    run_id: str
    sources: tuple[Source, ...]
    links: tuple[Link, ...]
    unread: tuple[Link, ...] = ()
    """The receiver, and the source that it did not use; the sources are among `sources` only if something else uses
    them."""

    @property
    def answer(self) -> Source:
        """The source whose provenance it is, the first of `sources`."""
        return self.sources[0]

    def source(self, id_: str) -> Source:
        """Returns the source with an id. Raises KeyError if there is none."""
        return {source.id: source for source in self.sources}[id_]

    def quoted(self, quote: str) -> list[QuotedSource]:
        """Returns the sources whose text contains a quoted part of the answer, or numbers of it, the nearest first.
        Raises InvalidArgument if the answer does not contain the quotation."""
        return sources_of_quote(quote, self.answer, self.sources[1:])


@dataclass(slots=True)
class RunProvenance:
    """The provenance of the answers of a run: `apply` takes its durable events in order, `add` its recorded calls."""

    lineage: RunLineage = field(default_factory=RunLineage)
    _texts: dict[int, str] = field(default_factory=dict, init=False, repr=False)
    _goal: str = field(default="", init=False, repr=False)
    _inputs: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _memory: dict[tuple[str, int], str] = field(default_factory=dict, init=False, repr=False)
    _parent_run: str = field(default="", init=False, repr=False)
    _requests: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    _questions: dict[str, tuple[str, str]] = field(default_factory=dict, init=False, repr=False)
    _people: dict[str, list[Source]] = field(default_factory=dict, init=False, repr=False)
    _resumable: set[str] = field(default_factory=set, init=False, repr=False)
    """Tasks whose attempts go on where earlier ones had ended."""
    _resolutions: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _records: dict[str, list[RunRecord]] = field(default_factory=dict, init=False, repr=False)

    def apply(self, event: RunEvent) -> None:
        """Adds one event. Events must come in the order of their sequence numbers."""
        self.lineage.apply(event)
        proto, task_id = event.proto, event.proto.task.task_id
        match proto.WhichOneof("event"):
            case "submitted":
                self._submitted(proto.submitted)
            case "result":
                self._texts[proto.seq] = text_of(proto.result.output)
                if proto.result.HasField("resolution"):
                    resolution = proto.result.resolution
                    self._resolutions[task_id] = f"decided by the rule {resolution.rule}: {resolution.reason}"
            case "item_published":
                self._texts[proto.seq] = text_of(proto.item_published.parts)
            case "message_sent":
                self._texts[proto.seq] = text_of(proto.message_sent.message.content)
            case "delegated" if proto.delegated.child_task_id:
                self._texts[proto.seq] = text_of(proto.delegated.input)
                self._requests.setdefault(proto.delegated.child_task_id, proto.seq)
                if proto.delegated.checkpoint:
                    self._resumable.add(task_id)
            case "checkpoint":
                self._resumable.add(task_id)
            case "input_requested":
                asked = proto.input_requested
                self._questions[asked.input_id] = task_id, text_of(asked.prompt)
                self._resumable.add(task_id)
            case "approval_requested":
                asked_for = proto.approval_requested
                self._questions[asked_for.input_id] = task_id, text_of(asked_for.prompt)
            case "input_given":
                self._given(proto)

    def _submitted(self, submitted: run_pb2.Submitted) -> None:
        self._goal, self._parent_run = text_of(submitted.goal), submitted.parent_run_id
        for key, text in submitted.metadata.items():
            if key.startswith(INPUT_PREFIX) and submitted.parent_run_id:
                self._inputs[key.removeprefix(INPUT_PREFIX)] = text
        for answer in submitted.session_context:
            self._memory[answer.item.ref.role, answer.item.ref.version] = text_of(answer.item.parts)

    def _given(self, event: run_pb2.RunEvent) -> None:
        given = event.input_given
        task_id, question = self._questions.get(given.input_id, (event.task.task_id, ""))
        said = text_of(given.parts)
        if given.decision:
            decision = question_pb2.Decision.Name(given.decision).removeprefix("DECISION_").lower()
            said = f"{decision}: {said}" if said else decision
        source = Source(
            f"event:{event.seq}",
            SourceKind.PERSON,
            given.identity or "the default answer",
            event.seq,
            said,
            task_id,
            f"asked: {question}" if question else "",
        )
        self._people.setdefault(task_id, []).append(source)

    def add(self, record: RunRecord) -> None:
        """Adds a recorded call of a model or a tool."""
        self._records.setdefault(record.task.task_id, []).append(record)

    def of(self, name: str = "") -> Provenance:
        """Returns the provenance of an answer: of a role, a step or a task; by default of the last one that no other
        uses. Raises InvalidArgument if there is no such task, several of them, or it has not answered."""
        task = self._find(name)
        walk = _Walk(self)
        walk.visit(task)
        return Provenance(self.lineage.run_id, tuple(walk.sources.values()), tuple(walk.links), tuple(walk.unread))

    def answered(self) -> list[TaskLineage]:
        """Returns the tasks that have answered, in the order of their answers; without the planner's, except the one
        that combines the results."""
        tasks = (task for task in self.lineage.tasks.values() if task.completed)
        kept = (task for task in tasks if task.predecessors or not self.lineage.is_planner(task))
        return sorted(kept, key=lambda task: task.result_seq)

    def _find(self, name: str) -> TaskLineage:
        answered = self.answered()
        if not name:
            used = {use.task_id for task in answered for use in self.lineage.uses(task.task_id)}
            last = [task for task in answered if task.task_id not in used and not task.parent_task_id]
            if not (last or answered):
                raise InvalidArgument("no task of the run has answered")
            return (last or answered)[-1]
        tasks = self.lineage.named(name)
        if not tasks:
            raise InvalidArgument(f"the run has no step, role or task {name!r}")
        done = [task for task in tasks if task.state is TaskState.COMPLETED]
        if not done:
            raise InvalidArgument(f"{name} has not answered: it is {tasks[-1].state}")
        if len(done) > 1:
            names = ", ".join(task.step_id or task.task_id for task in done[:10])
            raise InvalidArgument(f"{name} has {len(done)} answers: name one of {names}")
        return done[0]

    def calls(self, task: TaskLineage) -> Iterator[RunRecord]:
        """Yields the calls that an answer rests on: by the attempt that gave it, and by the attempts before if it went
        on where they had ended."""
        for record in self._records.get(task.task_id, ()):
            if record.task.attempt == task.attempt or task.task_id in self._resumable:
                yield record


class _Walk:
    """Collects the sources of an answer, depth first: each once, and without circles."""

    def __init__(self, run: RunProvenance) -> None:
        self._run = run
        self._lineage = run.lineage
        self.sources: dict[str, Source] = {}
        self.links: list[Link] = []
        self.unread: list[Link] = []
        self._open: set[str] = set()
        self._linked: set[tuple[str, str]] = set()

    def visit(self, task: TaskLineage) -> str:
        """Adds the answer of a task with all that it rests on. Returns its id."""
        id_ = f"task:{task.task_id}"
        if id_ in self.sources:
            return id_
        self.sources[id_] = self._answer(task, id_)
        self._open.add(id_)
        if task.is_edited:
            self._link(id_, self._edit(task), "stands in its place")
        else:
            self._own(task, id_)
            self._others(task, id_)
        self._open.discard(id_)
        return id_

    def _answer(self, task: TaskLineage, id_: str) -> Source:
        details = ["edited" if task.is_edited else "reused"] if task.reused and self._run._parent_run else []
        details += [self._run._resolutions[task.task_id]] if task.task_id in self._run._resolutions else []
        text = self._run._texts.get(task.result_seq, "")
        detail = "; ".join(details)
        return Source(id_, SourceKind.ANSWER, task.label, task.result_seq, text, task.task_id, detail)

    def _edit(self, task: TaskLineage) -> Source:
        replaced = f"in place of event {task.edited_seq}" if task.edited_seq else "where there was none"
        return Source(
            f"edit:{task.task_id}",
            SourceKind.EDIT,
            task.edited_by or "anonymous",
            task.result_seq,
            detail=f"{replaced} of run {self._run._parent_run}" if self._run._parent_run else replaced,
        )

    def _own(self, task: TaskLineage, id_: str) -> None:
        """Adds the input, people's answers and calls."""
        for source in self._run._people.get(task.task_id, ()):
            self._link(id_, source, "a person said")
        for record in self._run.calls(task):
            is_model = record.kind == "model"
            kind = SourceKind.MODEL if is_model else SourceKind.TOOL
            text = record.response_json if is_model else f"{record.request_json} {record.response_json}"
            by = f"called by {task.label}"
            source = Source(f"record:{record.ordinal}", kind, record.target, 0, text, task.task_id, by)
            self._link(id_, source, "called it")
        if task.parent_task_id:
            self._request(task, id_)
        elif (own := self._run._inputs.get(task.role)) and not task.step_id:
            self._link(id_, Source(f"input:{task.role}", SourceKind.INPUT, task.role, text=own), "its input")
        elif not task.step_id or not any(use.kind is UseKind.PLAN for use in self._lineage.uses(task.task_id)):
            self._link(id_, self._goal(), "its input")

    def _goal(self) -> Source:
        return Source(GOAL_ID, SourceKind.GOAL, "goal", 1, self._run._goal)

    def _request(self, task: TaskLineage, id_: str) -> None:
        seq, parent = self._run._requests.get(task.task_id, 0), self._lineage.tasks[task.parent_task_id]
        request = Source(f"event:{seq}", SourceKind.REQUEST, parent.label, seq, self._run._texts.get(seq, ""))
        self._link(id_, request, "its input")
        self._open.add(request.id)
        for use in self._lineage.uses(parent.task_id):
            if use.kind is UseKind.ANSWER:
                self._link_task(request.id, use.task_id, "was made with it")
        self._link(request.id, self._goal(), "was made for it")
        self._open.discard(request.id)

    def _others(self, task: TaskLineage, id_: str) -> None:
        for use in self._lineage.uses(task.task_id):
            if use.kind is UseKind.MESSAGE:
                continue
            self._link_task(id_, use.task_id, _HOW[use.kind])
        for seq in self._lineage.messages_read_by(task.task_id):
            message = self._message(seq)
            self._link(id_, message, _HOW[UseKind.MESSAGE])
        for ref in self._lineage.outside(task.task_id):
            self._link(id_, self._outside(ref), "used it")
        for ref in task.unread:
            other = self._lineage.producer(ref)
            on = f"task:{other}" if other else self._outside(ref).label
            label = self._lineage.tasks[other].label if other else on
            self.unread.append(Link(id_, on, f"answer of {label}, delivered and not used"))
        for seq in self._lineage.messages_unread(task.task_id):
            self.unread.append(Link(id_, f"event:{seq}", f"{self._message(seq).label}'s message, never read"))

    def _message(self, seq: int) -> Source:
        task = self._lineage.tasks[self._lineage.message_sender(seq)]
        return Source(f"event:{seq}", SourceKind.MESSAGE, task.label, seq, self._run._texts.get(seq, ""), task.task_id)

    def _outside(self, ref: MemoryRef) -> Source:
        if ref.run_id and ref.seq and not ref.version:
            id_ = f"run:{ref.run_id}:{ref.seq}"
            return Source(id_, SourceKind.RUN, ref.role, ref.seq, run_id=ref.run_id)
        text = self._run._memory.get((ref.role, ref.version), "")
        id_ = f"memory:{ref.role}:{ref.version}"
        return Source(
            id_, SourceKind.MEMORY, ref.role, 0, text, version=ref.version, scope=ref.scope, run_id=ref.run_id
        )

    def _link_task(self, id_: str, task_id: str, how: str) -> None:
        other = self._lineage.tasks[task_id]
        if not other.completed or f"task:{task_id}" in self._open:
            return  # a circle of messages, or of a plan and its steps
        self._add(Link(id_, f"task:{task_id}", how))
        self.visit(other)

    def _link(self, id_: str, source: Source, how: str) -> None:
        if source.id not in self._open:
            self.sources.setdefault(source.id, source)
            self._add(Link(id_, source.id, how))

    def _add(self, link: Link) -> None:
        if (link.of, link.on) not in self._linked:
            self._linked.add((link.of, link.on))
            self.links.append(link)
