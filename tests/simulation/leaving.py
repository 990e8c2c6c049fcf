"""Checks of every frame that leaves a replica: V5's table, the results of memoized delegations (V9), the context that a
dispatch recorded (V11), and the lease (D11)."""

from __future__ import annotations

from archon.api.agent.v1 import session_pb2
from archon_mesh.engine.types import ContextRef
from archon_services.orchestrator.ownership.lease import LEASE
from tests.simulation.check import Book, Check


class Leaving:
    """Checks the frames of all replicas of a mesh."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._answers: dict[tuple[str, str], bytes] = {}
        self._unacked: dict[tuple[str, int, int], str] = {}
        """The durable frames of agents, by (task, attempt, sequence), until they are acked."""
        self.updates = 0
        """How many newer answers were sent to attempts."""

    def sent(self, frame: session_pb2.AgentFrame) -> None:
        """Records a frame of an agent that must not get lost."""
        if frame.sequence:
            self._unacked[frame.task.task_id, frame.task.attempt, frame.sequence] = frame.WhichOneof("frame") or ""

    def left(self, lease_end: float, replica: object, instance_id: str, frame: session_pb2.OrchestratorFrame) -> None:
        """Checks a frame that leaves a replica, whose last successful lease renewal was sent at `lease_end`."""
        ref, arm = frame.task, frame.WhichOneof("frame")
        if not ref.task_id:
            return
        check = self._check
        since = check.loop.now - lease_end
        check.must(
            "D11", since < LEASE, f"{replica} sent a frame about {ref.task_id}, its lease was renewed {since:.1f} s ago"
        )
        book = check.books.get(ref.run_id)
        if book is None:
            check.must("V5", arm != "assign_task", f"{ref.task_id} left before its run was durable")
            return
        match arm:
            case "assign_task":
                self._assigned(book, instance_id, frame)
            case "update_memory":
                self._updated(book, frame)
            case "delegate_result":
                self._answered(book, frame)
            case "cancel_task":
                task = book.state.tasks.get(ref.task_id)
                due = book.over(ref.task_id, ref.attempt) or book.state.ending is not None
                due = due or (task is not None and task.stopping)
                check.must("V5", due, f"{replica} stopped attempt {ref.attempt} of {ref.task_id} without an event")
            case "discarded":
                over = book.over(ref.task_id, ref.attempt)
                check.must("V8", over, f"{replica} discarded the result of attempt {ref.attempt} of {ref.task_id}")
        if frame.ack:
            self._acked(book, frame)

    def _assigned(self, book: Book, instance_id: str, frame: session_pb2.OrchestratorFrame) -> None:
        ref = frame.task
        known = book.dispatched.get((ref.task_id, ref.attempt))
        fits = known is not None and known.instance_id == instance_id
        self._check.must("V5", fits, f"{ref.task_id} attempt {ref.attempt} left before its dispatch was durable")
        if known is None:
            return
        sent = tuple(part.text for item in frame.assign_task.context for part in item.parts)
        recorded = tuple(_recorded(book, context) for context in known.context)
        if sent != recorded:  # an item may have been replaced in the meantime
            recorded = tuple(_replaced(book, context) for context in known.context)
        self._check.must("V11", sent == recorded, f"{ref.task_id} received {sent}, its dispatch recorded {recorded}")

    def _updated(self, book: Book, frame: session_pb2.OrchestratorFrame) -> None:
        for item in frame.update_memory.context:
            durable = 0 < item.ref.seq <= len(book.protos)
            text = _text(book, item.ref.seq) if durable else ""
            self.updates += 1
            self._check.must(
                "V11",
                item.parts[0].text == text,
                f"{frame.task.task_id} is sent {item}, event {item.ref.seq} has {text}",
            )

    def _answered(self, book: Book, frame: session_pb2.OrchestratorFrame) -> None:
        ref, answer = frame.task, frame.delegate_result
        delegated = book.delegated.get((ref.task_id, ref.attempt, answer.delegation_id))
        what = f"{answer.delegation_id} of {ref.task_id}"
        self._check.must("V5", delegated is not None, f"{what} was answered before it was durable")
        if delegated is None or delegated.failure is not None:
            return
        answered = book.state.tasks[delegated.child].answered
        self._check.must("V5", answered, f"{what} was answered before {delegated.child} had ended")
        data = answer.result.SerializeToString(deterministic=True)
        first = self._answers.setdefault((ref.task_id, delegated.memo_key), data)
        self._check.must("V9", first == data, f"{delegated.memo_key} of {ref.task_id} was answered in two ways")

    def _acked(self, book: Book, frame: session_pb2.OrchestratorFrame) -> None:
        """Checks V5: an acknowledged frame's event is durable."""
        ref = frame.task
        for sequence in range(frame.ack, 0, -1):
            arm = self._unacked.pop((ref.task_id, ref.attempt, sequence), None)
            if arm is None:
                if sequence < frame.ack:
                    break
                continue
            task = book.state.tasks.get(ref.task_id)
            durable = book.over(ref.task_id, ref.attempt)
            if arm in ("delegate", "checkpoint", "cancel_delegation", "budget_request", "publish", "ask"):
                stopping = book.state.ending is not None or (task is not None and task.stopping)
                durable = durable or stopping or (task is not None and task.applied >= sequence)
            elif arm != "result":
                continue
            self._check.must("V5", durable, f"{arm} {sequence} of {ref.task_id} was acked before it was durable")


def _recorded(book: Book, context: ContextRef) -> str:
    """Returns the text that the journal has for a context reference: an answer of the run, or an item of its
    session."""
    if context.seq:
        return _text(book, context.seq)
    known = book.protos[0].submitted.session_context
    return next(entry.item.parts[0].text for entry in known if entry.item.ref.version == context.version)


def _text(book: Book, seq: int) -> str:
    """Returns the text of an answer or item."""
    event = book.protos[seq - 1]
    parts = event.item_published.parts if event.HasField("item_published") else event.result.output
    return parts[0].text


def _replaced(book: Book, context: ContextRef) -> str:
    """Returns the text that stands for a context reference now: that of the next item of the same role, if the task
    keeps the referenced one no longer."""
    kept = [
        item.seq
        for task in book.state.tasks.values()
        for item in task.items
        if task.role == context.role and item.seq >= context.seq > 0
    ]
    is_item = context.seq and book.protos[context.seq - 1].HasField("item_published")
    return _text(book, min(kept)) if is_item and kept else _recorded(book, context)
