"""Facts of a run, read from its events without a model, each with the events that prove it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any, Final

from archon.answers import confidence_of as stated_confidence
from archon.answers import states_confidence
from archon.plain_text import counted, duration
from archon.run_view import RunView, TaskView
from archon.types import RunEvent, TaskState
from archon_mesh.explain.event_text import event_text, failure_text, parts_text, quoted
from archon_mesh.explain.explanation import Confidence, Explanation, Fact, RecordLine, confidence_of, listed, sentence
from archon_mesh.recorded import RecordedRun

MAX_NAMED: Final = 12
"""Things that one sentence names."""


def explain(recorded: RecordedRun) -> Explanation:
    """Returns the explanation of a run, from its events and records alone: the same run gives the same explanation."""
    return _Reader(recorded).explanation()


class _Reader:
    """Reads one run."""

    def __init__(self, recorded: RecordedRun) -> None:
        self._recorded = recorded
        self._run = recorded.run
        self._view = RunView()
        self._record: list[RecordLine] = []
        self._by_kind: dict[str, list[RunEvent]] = {}
        for event in recorded.events:
            self._view.apply(event)
            self._by_kind.setdefault(event.type, []).append(event)
            self._record.append(self._line(event))

    def explanation(self) -> Explanation:
        """Returns the facts of the run, from its goal and its outcome to its cost and its ratings, each with the events
        that prove it, and the record of all events."""
        outcome = self._outcome()
        facts = [
            self._goal(),
            outcome,
            *self._work(),
            *self._plans(),
            *self._delegations(),
            *self._decisions(),
            *self._people(),
            *self._troubles(),
            *self._answers(),
            *self._tools(),
            self._cost(),
            *self._ratings(),
        ]
        return Explanation(
            self._run.run_id,
            str(self._run.state),
            outcome.text,
            self._confidence(),
            tuple(facts),
            tuple(self._record),
            self._recorded.expired,
        )

    def _line(self, event: RunEvent) -> RecordLine:
        task, attempt = self._view.tasks.get(event.task_id), event.task.attempt if event.task is not None else 0
        label = task.label if task is not None else event.task_id or "run"
        subject = f"{label} #{attempt}" if attempt else label
        offset = max(0.0, event.time - self._run.create_time)
        text = event_text(self._view, event)
        return RecordLine(event.seq, event.time, offset, subject, event.type, text, event.task_id, attempt)

    def _events(self, *kinds: str) -> Iterator[RunEvent]:
        yield from sorted(
            (event for kind in kinds for event in self._by_kind.get(kind, ())), key=lambda event: event.seq
        )

    def _label(self, event: RunEvent) -> str:
        task = self._view.tasks.get(event.task_id)
        return task.label if task is not None else event.task_id

    def _goal(self) -> Fact:
        goal = "\n\n".join(part.text or part.data_json or part.url or part.filename for part in self._run.goal)
        who = f" of {self._run.identity}" if self._run.identity and self._run.identity != "anonymous" else ""
        parent = f", continuing run {self._run.parent_run_id[:12]}" if self._run.parent_run_id else ""
        return Fact(
            "goal", sentence(f"The goal{who}{parent} was {quoted(goal)}"), (1,) if self._recorded.events else ()
        )

    def _outcome(self) -> Fact:
        seqs = tuple(event.seq for event in self._by_kind.get("run_state", ()))
        took = f"after {duration(self._recorded.seconds)}"
        match self._run.state:
            case TaskState.COMPLETED:
                count = len(self._run.answers)
                answers = "an answer" if count == 1 else f"{count} answers"
                return Fact("outcome", f"The run completed with {answers} {took}.", seqs)
            case TaskState.FAILED:
                failure = self._run.failure
                why = f"{failure.message} ({failure.reason})" if failure is not None else "no reason was given"
                return Fact("outcome", f"The run failed {took}: {why.rstrip('.')}.", seqs)
            case TaskState.CANCELED:
                requests = self._by_kind.get("cancel_requested", [])
                by, why = self._cancelled(requests[0]) if requests else ("", "")
                seqs = (*(event.seq for event in requests), *seqs)
                return Fact("outcome", f"The run was cancelled{by} {took}{why}.", seqs)
        return Fact("outcome", f"The run has not ended: it is {self._run.state} {took}.")

    def _cancelled(self, event: RunEvent) -> tuple[str, str]:
        reason, who = str(event.data["reason"]), str(event.data["identity"])
        return (f" by {who}" if who and who != "anonymous" else ""), (f": {reason.rstrip('.')}" if reason else "")

    def _work(self) -> Iterator[Fact]:
        roles = self._recorded.roles
        if not roles:
            return
        seqs = tuple(event.seq for event in self._by_kind.get("dispatched", ()))
        reused = [task.label for task in self._view.tasks.values() if task.reused]
        taken = f", reusing the answers of {_named(reused)}" if reused else ""
        yield Fact("work", f"{counted(len(roles), 'role')} worked on it: {_named(roles)}{taken}.", seqs)

    def _plans(self) -> Iterator[Fact]:
        plans = list(self._events("planned"))
        if not plans:
            return
        last = plans[-1].data["plan"]
        again = [event for event in plans[1:] if not event.data["expansion"]]
        reasons = [event.data["reason"] for event in again if event.data["reason"]]
        edits = sorted({event.data["identity"] for event in plans if event.data["identity"]})
        changed = f", and changed {_times(len(again))}" if again else ""
        why = f", because {quoted(reasons[-1])}" if reasons else ""
        by = f" (edited by {_named(edits)})" if edits else ""
        count = counted(len(last["steps"]), "step")
        yield Fact("plan", f"A plan was made{changed}{why}; it has {count}{by}.", tuple(event.seq for event in plans))

    def _delegations(self) -> Iterator[Fact]:
        made: dict[str, list[RunEvent]] = {}
        for event in self._events("delegated"):
            if not event.data.get("failure"):
                made.setdefault(self._label(event), []).append(event)
        for label, events in made.items():
            counts = Counter(str(event.data["role"]) for event in events)
            parts = [role if count == 1 else f"{role} ({_times(count)})" for role, count in counts.items()]
            yield Fact("delegation", f"{label} delegated to {_named(parts)}.", tuple(event.seq for event in events))

    def _decisions(self) -> Iterator[Fact]:
        for event in self._events("result"):
            resolution = event.data.get("resolution")
            if resolution:
                chosen = (
                    f" chose {resolution['winner_step_id']}" if resolution["winner_step_id"] else " left it undecided"
                )
                conflict = f"; the results differ: {resolution['conflict']}" if resolution["conflict"] else ""
                how = f"the rule {resolution['rule']}{chosen}: {resolution['reason']}{conflict}"
                yield Fact("decision", f"For {self._label(event)}, {how}.", (event.seq,))
        for task in self._view.tasks.values():
            if task.verdict is not None:
                chosen = f" for {task.verdict.winner}" if task.verdict.winner else ""
                text = (
                    f"{task.label} settled a conflict by {task.verdict.way}{chosen}: {task.verdict.reason.rstrip('.')}."
                )
                yield Fact("decision", text, (task.result_seq,) if task.result_seq else ())

    def _people(self) -> Iterator[Fact]:
        asked = {event.data["input_id"]: event for event in self._events("input_requested", "approval_requested")}
        given = {event.data["input_id"]: event for event in self._events("input_given")}
        for input_id, question in asked.items():
            answer = given.get(input_id)
            terms = question.data.get("terms") or {}
            if terms.get("trigger") == "breakpoint":
                released = (answer.seq,) if answer is not None else ()
                hold = self._hold(question, str(terms["rule"]), answer)
                yield Fact("person", hold, (question.seq, *released))
                continue
            prompt = quoted(parts_text(question.data["prompt"]))
            if answer is None:
                late = [event for event in self._events("question_timed_out") if event.data["input_id"] == input_id]
                said = "no answer came in time" if late else "it was not answered"
                seqs = (question.seq, *(event.seq for event in late))
                yield Fact("person", f"{self._label(question)} asked a person {prompt}; {said}.", seqs)
                continue
            who = _person(answer)
            verb = {"approve": "approved it", "reject": "rejected it", "modify": "changed it"}.get(
                answer.data["decision"], ""
            )
            reply = quoted(parts_text(answer.data["parts"])) if parts_text(answer.data["parts"]) else ""
            verb = verb or f"answered {reply}"
            yield Fact(
                "person",
                sentence(f"{self._label(question)} asked {prompt}, and {who} {verb}"),
                (question.seq, answer.seq),
            )

    def _hold(self, question: RunEvent, point: str, answer: RunEvent | None) -> str:
        held = f"{self._label(question)} was held at the {point}"
        if answer is None:
            return f"{held}; it was not released."
        verb = {"reject": "rejected it", "modify": "changed it"}.get(answer.data["decision"], "released it")
        return sentence(f"{held}, and {_person(answer)} {verb}")

    def _troubles(self) -> Iterator[Fact]:
        repeated: dict[str, list[RunEvent]] = {}
        for event in self._events("lost", "retry", "rejected"):
            if not event.data.get("resolution"):
                repeated.setdefault(event.task_id, []).append(event)
        for task_id, events in repeated.items():
            task, last = self._view.tasks[task_id], events[-1]
            text = failure_text(last.data.get("failure")).rstrip(".")
            why = f"{last.data['instance_id']} was lost: {text}" if last.type == "lost" else text
            more = f", at last because {why}" if len(events) > 1 else f", because {why}"
            yield Fact(
                "trouble",
                f"{task.label} had to begin again {_times(len(events))}{more}.",
                tuple(event.seq for event in events),
            )
        for task in self._view.tasks.values():
            if task.state is TaskState.FAILED and task.failure is not None:
                seqs = (task.result_seq,) if task.result_seq else ()
                yield Fact("trouble", f"{task.label} failed: {task.failure.message.rstrip('.')}.", seqs)
        if self._view.session_context_failure is not None:
            text = self._view.session_context_failure.message.rstrip(".")
            yield Fact("trouble", f"The run had no context from its session: {text}.", (1,))
        for claim in self._view.claims:
            seq = next((event.seq for event in self._by_kind["claimed"] if event.data["epoch"] == claim.epoch), 0)
            yield Fact("trouble", f"Another orchestrator took the run over (epoch {claim.epoch}).", (seq,))

    def _answers(self) -> Iterator[Fact]:
        results = {event.task_id: event for event in self._by_kind.get("result", ())}
        for answer in self._run.answers:
            event = results.get(answer.task_id)
            label = f"{answer.role} ({answer.step_id})" if answer.step_id else answer.role
            if event is None:
                yield Fact("answer", sentence(f"{label} gave the answer {quoted(answer.text)}"))
                continue
            used, unread = self._context(event)
            rests = f", which rests on the answers of {_named([name for name, _ in used])}," if used else ""
            left = f" It was given, and did not use, the answers of {_named(unread)}." if unread else ""
            seqs = (event.seq, *(seq for _, seq in used if seq))
            yield Fact("answer", sentence(f"The answer of {label}{rests} is {quoted(answer.text)}") + left, seqs)

    def _context(self, result: RunEvent) -> tuple[list[tuple[str, int]], list[str]]:
        """Returns the answers that a result used, as roles with their events, and the roles of those that it was given
        and did not use."""
        labels = {task.result_seq: task.label for task in self._view.tasks.values() if task.result_seq}

        def name(ref: Mapping[str, Any]) -> str:
            own = ref["run_id"] in ("", self._run.run_id)
            return labels.get(ref["seq"], str(ref["role"])) if own else str(ref["role"])

        used = [(name(ref), int(ref["seq"])) for ref in result.data["used"]]
        number = result.task.attempt if result.task is not None else 0
        attempts = [
            event
            for event in self._by_kind.get("dispatched", ())
            if event.task_id == result.task_id and event.task is not None and event.task.attempt == number
        ]
        given = [name(ref) for event in attempts for ref in event.data["given"]]
        return used, [each for each in given if each not in {label for label, _ in used}]

    def _tools(self) -> Iterator[Fact]:
        calls = Counter(record.target for record in self._recorded.records if record.kind == "tool")
        if calls:
            parts = [name if count == 1 else f"{name} ({_times(count)})" for name, count in calls.most_common()]
            yield Fact("tools", f"The agents called the tools {_named(parts)}.")

    def _cost(self) -> Fact:
        usage = self._run.usage
        cost = (
            f"It cost ${usage.cost_micro_usd / 1e6:.6g}" if usage.cost_micro_usd else "It cost nothing that has a price"
        )
        about = "about " if usage.estimated else ""
        tokens = f"{about}{usage.input_tokens + usage.output_tokens:,} tokens"
        return Fact("cost", f"{cost}: {counted(usage.model_calls, 'model call')}, {tokens}.")

    def _ratings(self) -> Iterator[Fact]:
        if self._run.ratings:
            stars = fmean(rating.stars for rating in self._run.ratings)
            yield Fact("rating", f"{counted(len(self._run.ratings), 'rating')} by people: {stars:.2g} of 5 stars.")

    def _confidence(self) -> Confidence:
        values: list[tuple[float, str]] = []
        for answer in self._run.answers:
            if states_confidence(answer.text):
                values.append((stated_confidence(answer.text), f"{answer.role} states"))
        for task in self._view.tasks.values():
            if (share := _support(task)) is not None:
                values.append((share, f"the votes for {task.label} give"))
        if self._run.ratings:
            values.append(((fmean(rating.stars for rating in self._run.ratings) - 1) / 4, "people's ratings give"))
        return confidence_of(values, list(self._doubts()))

    def _doubts(self) -> Iterator[str]:
        if not self._run.answers:
            yield "there is no answer"
        if self._view.session_context_failure is not None:
            yield "the context from the session is missing"
        failed = [task.label for task in self._view.tasks.values() if task.state is TaskState.FAILED]
        if failed and self._run.state is TaskState.COMPLETED:
            yield f"{_named(failed)} failed"
        conflicts = [task.label for task in self._view.tasks.values() if task.resolution and task.resolution.conflict]
        if conflicts:
            yield f"results for {_named(conflicts)} differed"


def _support(task: TaskView) -> float | None:
    """Returns the part of the votes that the chosen result had; None without a vote."""
    if task.resolution is None or not task.resolution.winner_step_id or any(vote.bid for vote in task.resolution.votes):
        return None
    total = sum(vote.weight for vote in task.resolution.votes)
    won = [vote.support for vote in task.resolution.votes if vote.step_id == task.resolution.winner_step_id]
    return min(1.0, won[0] / total) if won and total > 0 and len(task.resolution.votes) > 1 else None


def _named(names: tuple[str, ...] | list[str]) -> str:
    unique = list(dict.fromkeys(names))
    more = [f"{len(unique) - MAX_NAMED:,} more"] if len(unique) > MAX_NAMED else []
    return listed([*unique[:MAX_NAMED], *more])


def _person(answer: RunEvent) -> str:
    identity = str(answer.data["identity"])
    return identity if identity not in ("", "anonymous") else "a person"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")
