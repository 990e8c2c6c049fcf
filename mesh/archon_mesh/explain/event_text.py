"""A sentence for each durable event of a run, for the complete record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from archon.plain_text import counted, cut
from archon.run_view import RunView
from archon.types import RunBreakpoint, RunEvent

SHOWN: Final = 160
"""Characters of a text that a sentence quotes."""


def event_text(view: RunView, event: RunEvent) -> str:
    """Returns a sentence about a durable event. `view` has the event applied. An event of a kind that this version does
    not know is named."""
    data = event.data
    make = _SENTENCES.get(event.type)
    return make(view, event, data) if make is not None else f"an event of the kind {event.type or 'unknown'}"


def quoted(text: str) -> str:
    """Returns the beginning of a text on one line, in quotation marks."""
    return f'"{cut(" ".join(text.split()), SHOWN)}"'


def parts_text(parts: Sequence[Mapping[str, Any]]) -> str:
    """Returns the texts of parts, with the names of files."""
    texts = [
        part.get("text") or part.get("data_json") or part.get("url") or part.get("filename") or "" for part in parts
    ]
    return "\n\n".join(filter(None, texts))


def failure_text(failure: Mapping[str, Any] | None) -> str:
    """Returns the message of a failure, with its reason."""
    if not failure:
        return "no reason was given"
    reason = str(failure.get("reason", ""))
    return (failure.get("message") or "no reason was given") + (f" ({reason})" if reason else "")


def _submitted(view: RunView, event: RunEvent, data: Mapping[str, Any]) -> str:
    who = f" for {data['identity']}" if data["identity"] else ""
    by = f" by {data['actor']}" if data["actor"] else ""
    parent = f", continuing run {data['parent_run_id']}" if data["parent_run_id"] else ""
    return f"submitted{who}{by} as {data['strategy'] or 'a run'}{parent}: {quoted(parts_text(data['goal']))}"


def _run_state(view: RunView, event: RunEvent, data: Mapping[str, Any]) -> str:
    failure = f": {failure_text(data['failure'])}" if data.get("failure") else ""
    seqs = data["answer_seqs"]
    answers = f"; final answers: {_events(seqs)}" if seqs else ""
    return f"the run is {data['state']}{failure}{answers}"


def _task_state(view: RunView, event: RunEvent, data: Mapping[str, Any]) -> str:
    if data["stopping"]:
        return f"is being stopped: {failure_text(data.get('failure'))}"
    if data["state"] != "submitted":
        return f"is {data['state']}" + (f": {failure_text(data['failure'])}" if data.get("failure") else "")
    parent = f", delegated by task {data['parent_task_id']}" if data["parent_task_id"] else ""
    after = f", after {', '.join(data['predecessors'])}" if data["predecessors"] else ""
    return f"task created{parent}{after}"


def _dispatched(view: RunView, event: RunEvent, data: Mapping[str, Any]) -> str:
    given = [
        f"{ref['role']} (event {ref['seq']})" if ref["seq"] else f"{ref['role']} (session)" for ref in data["given"]
    ]
    context = f", with the answers of {', '.join(given)}" if given else ""
    placement = data.get("placement")
    why = f", chosen as {placement['reason'].replace('_', ' ')} of {placement['compared']}" if placement else ""
    unheld = "; its runtime cannot hold at the breakpoints" if data["ignores_breakpoints"] else ""
    return f"dispatched to {data['instance_id']}{why}{context}{unheld}"


def _result(view: RunView, event: RunEvent, data: Mapping[str, Any]) -> str:
    if data.get("failure"):
        return f"{data['state']}: {failure_text(data['failure'])}"
    used = [f"{ref['role']} (event {ref['seq']})" if ref["seq"] else ref["role"] for ref in data["used"]]
    rests = f", resting on {', '.join(used)}" if used else ""
    decided = data.get("resolution")
    rule = f", decided by {decided['rule']}: {decided['reason']}" if decided else ""
    task = view.tasks.get(event.task_id)
    verb = "answer reused" if task is not None and task.reused else "answered"
    return f"{verb}{rule}{rests}: {quoted(parts_text(data['output']))}"


def _asked(view: RunView, event: RunEvent, data: Mapping[str, Any]) -> str:
    terms = data.get("terms") or {}
    if terms.get("trigger") == "breakpoint":
        before = ", before its dispatch" if event.type == "approval_requested" else ""
        return f"held at the {terms['rule']}{before} ({data['input_id']})"
    noun = "approval" if event.type == "approval_requested" or data.get("kind") == "approval" else "an answer"
    return f"asked a person for {noun} ({data['input_id']}): {quoted(parts_text(data['prompt']))}"


def _given(view: RunView, event: RunEvent, data: Mapping[str, Any]) -> str:
    decision = {"approve": "approved", "reject": "rejected", "modify": "modified"}.get(data["decision"], "answered")
    text = parts_text(data["parts"])
    return f"{data['identity'] or 'a person'} {decision} {data['input_id']}" + (f": {quoted(text)}" if text else "")


def _breakpoints(view: RunView, event: RunEvent, data: Mapping[str, Any]) -> str:
    texts = [RunBreakpoint(each).text for each in event.proto.breakpoints_set.breakpoints]
    return f"breakpoints set{_by(data)}: {', '.join(texts)}" if texts else f"breakpoints removed{_by(data)}"


def _delegated(view: RunView, event: RunEvent, data: Mapping[str, Any]) -> str:
    what = quoted(parts_text(data["input"]))
    if data.get("failure"):
        return f"delegation to {data['role']} refused: {failure_text(data['failure'])}"
    return f"delegated to {data['role']} (task {data['child_task_id']}): {what}"


def _planned(view: RunView, event: RunEvent, data: Mapping[str, Any]) -> str:
    plan = data.get("plan") or {"revision": 0, "steps": ()}
    by = f"edited by {data['identity']}" if data["identity"] else "expanded" if data["expansion"] else "made"
    why = f", because {quoted(data['reason'])}" if data["reason"] else ""
    steps = ", ".join(step["step_id"] for step in plan["steps"])
    return f"plan {plan['revision']} {by}{why}: {len(plan['steps'])} steps ({steps})"


def _message(view: RunView, event: RunEvent, data: Mapping[str, Any]) -> str:
    if data.get("failure"):
        return f"message refused: {failure_text(data['failure'])}"
    return "sent a message to other tasks" + (" (again)" if data["first_seq"] else "")


def _budget(view: RunView, event: RunEvent, data: Mapping[str, Any]) -> str:
    if data.get("budget"):
        return "a further slice of the budget was reserved"
    return f"more of the budget was refused: {failure_text(data.get('failure'))}"


def _retry(view: RunView, event: RunEvent, data: Mapping[str, Any]) -> str:
    if data.get("resolution"):
        return f"the rule {data['resolution']['rule']} left the decision to the role: {data['resolution']['reason']}"
    return f"the attempt failed and is made again: {failure_text(data.get('failure'))}"


def _published(view: RunView, event: RunEvent, data: Mapping[str, Any]) -> str:
    version = (data.get("ref") or {}).get("version", 0)
    return f"answer published to shared memory as version {version} of {data['role']}"


def _cancel(view: RunView, event: RunEvent, data: Mapping[str, Any]) -> str:
    cause = data["cause"] or "CANCELLED"
    by = f" by {data['identity']}" if data["identity"] else ""
    return f"cancellation requested{by} ({cause}): {data['reason'] or failure_text(data.get('failure'))}"


def _timed_out(view: RunView, event: RunEvent, data: Mapping[str, Any]) -> str:
    return f"no answer to {data['input_id']} came in time: {data['policy'] or 'abort'}"


_SENTENCES: Final[Mapping[str, Callable[[RunView, RunEvent, Mapping[str, Any]], str]]] = {
    "submitted": _submitted,
    "run_state": _run_state,
    "task_state": _task_state,
    "dispatched": _dispatched,
    "delegated": _delegated,
    "published": _published,
    "result": _result,
    "input_requested": _asked,
    "approval_requested": _asked,
    "input_given": _given,
    "breakpoints_set": _breakpoints,
    "recorded": lambda view, event, data: f"{counted(data['count'], 'call')} of models and tools recorded",
    "lost": lambda view, event, data: f"{data['instance_id']} was lost: {failure_text(data.get('failure'))}",
    "rejected": lambda view, event, data: f"{data['instance_id']} gave it back: {failure_text(data.get('failure'))}",
    "discarded": lambda view, event, data: f"a result came too late and was discarded ({data['reason']})",
    "cancel_requested": _cancel,
    "checkpoint": lambda view, event, data: f"checkpoint of {data['size']:,} bytes stored",
    "claimed": lambda view, event, data: f"taken over by {data['owner']} (epoch {data['epoch']})",
    "budget_reserved": _budget,
    "delegation_cancelled": lambda view, event, data: f"delegation {data['delegation_id']} cancelled",
    "paused": lambda view, event, data: f"paused{_by(data)}",
    "resumed": lambda view, event, data: f"resumed{_by(data)}",
    "retry": _retry,
    "item_published": lambda view, event, data: f"published an item: {quoted(parts_text(data['parts']))}",
    "planned": _planned,
    "question_timed_out": _timed_out,
    "message_sent": _message,
    "subscribed": lambda view, event, data: f"subscribed to messages: {', '.join(data['topics']) or 'its own'}",
}

KINDS: Final = frozenset(_SENTENCES)
"""The kinds of events that have a sentence."""


def _by(data: Mapping[str, Any]) -> str:
    return f" by {data['identity']}" if data["identity"] else ""


def _events(seqs: Sequence[int]) -> str:
    return f"event{'s' if len(seqs) > 1 else ''} {', '.join(map(str, seqs))}"
