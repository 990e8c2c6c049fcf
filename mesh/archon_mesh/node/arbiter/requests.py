"""The requests of an arbiter to roles, models and people, and the reading of their replies. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from archon.json_text import json_object
from archon_mesh.core.shorten import shortened
from archon_mesh.node.arbiter.conflict import MAX_CHANGED, MAX_KEPT, Decided, Position, chosen

NONE: Final = "none"
"""The choice of a model, a reviewer or a person that no answer is right."""

MAX_SHOWN: Final = 8_000
"""Characters of an answer in a request."""

_VERDICT: Final = re.compile(r"[\s*_#\"'`]*(pass|fail)\b", re.IGNORECASE)


def method_request(question: str, position: Position, others: Sequence[Position]) -> str:
    """Returns the request to a role for the method of its answer."""
    return (
        f"You have answered a question, and others have answered it differently.\n\nThe question:\n{_cut(question)}\n\n"
        f"Your answer:\n{_cut(position.now)}\n\nThe other answers:\n{_listed(others)}\n\n"
        "Say how you got your answer, and check it against the others. Reply with one JSON object: method (how you got "
        "it, with its sources) and answer (your answer now, changed or not, and nothing else)."
    )


def with_method(position: Position, reply: str) -> Position:
    """Returns the position with the method in a reply, and the answer that the role gives now."""
    data = object_in(reply)
    if data is None:
        return replace(position, method=reply[:MAX_KEPT])
    method, now = _text(data.get("method")), _text(data.get("answer"))
    if not now.strip() or len(now) > MAX_CHANGED:
        now = position.now
    return replace(position, method=method[:MAX_KEPT], now=now)


def check_request(question: str, position: Position, others: Sequence[Position]) -> str:
    """Returns the request to a verifier to check one answer."""
    method = f"\n\nHow it was found, as its author says:\n{position.method}" if position.method else ""
    return (
        f"Check whether an answer to a question is right.\n\nThe question:\n{_cut(question)}\n\nThe answer to check:\n"
        f"{_cut(position.now)}{method}\n\nOther answers, which differ:\n{_listed(others)}\n\n"
        "The first line of your reply is PASS if the answer to check is right, FAIL if it is wrong. Then say why."
    )


def check_of(reply: str) -> bool | None:
    """Returns whether a verifier says that an answer is right; None if it says neither."""
    match = _VERDICT.match(reply)
    if match is not None:
        return match[1].lower() == "pass"
    verdict = (object_in(reply) or {}).get("verdict")
    match = _VERDICT.match(verdict) if isinstance(verdict, str) else None
    return None if match is None else match[1].lower() == "pass"


def choice_request(question: str, positions: Sequence[Position]) -> str:
    """Returns the request to a model or a reviewer to choose an answer."""
    return (
        f"These answers to a question differ. Decide which of them is right.\n\nThe question:\n{_cut(question)}\n\n"
        f"The answers:\n{_evidence(positions)}\n\nReply with one JSON object: choice (the step of the right answer, "
        f"such as {positions[0].step_id}, or {NONE} if none is right) and reason."
    )


def choice_schema(positions: Sequence[Position]) -> dict[str, Any]:
    """Returns the JSON Schema of a choice."""
    properties = {
        "choice": {"enum": [*(each.step_id for each in positions), NONE]},
        "reason": {"type": "string"},
    }
    return {"type": "object", "properties": properties, "required": ["choice", "reason"]}


def choice_of(way: str, whose: str, reply: str, positions: Sequence[Position]) -> Decided | str:
    """Returns the decision in the reply of a model or a reviewer, or the reason why it decides nothing."""
    data = object_in(reply) or {}
    choice = _text(data.get("choice")) if "choice" in data else reply
    if choice.strip().casefold() == NONE:
        return f"{whose} says that none is right{_because(data)}"
    position = chosen(choice, positions)
    if position is None:
        return f"{whose} has chosen none of the answers: {shortened(choice, 100)}"
    return Decided(
        way, position.step_id, position.now, f"{whose} has chosen {position.name}{_because(data)}"[:MAX_KEPT]
    )


def person_request(question: str, positions: Sequence[Position]) -> str:
    """Returns the question to a person: all answers, with their roles and steps."""
    steps = " or ".join(each.step_id for each in positions)
    return (
        f"Which answer is right: {steps}?\n\nThe question:\n{_cut(question)}\n\n"
        f"The answers, which differ:\n{_evidence(positions)}\n\nReply with the step of the right answer, such as "
        f"{positions[0].step_id}, with another answer, or with {NONE}."
    )


def redo_request(question: str, position: Position, decided: Decided, evidence: Sequence[Position]) -> str:
    """Returns the request to a role whose answer has lost to do its work again."""
    methods = [f"\n\nHow {each.name} found it:\n{each.method}" for each in evidence if each.method][:1]
    return (
        f"Your answer to a question was found to be wrong. Do the work again.\n\nThe question:\n{_cut(question)}\n\n"
        f"Your answer:\n{_cut(position.said)}\n\nThe answer that counts:\n{_cut(decided.text)}\n\n"
        f"Why: {decided.reason}{''.join(methods)}\n\nReply with your new answer alone."
    )


def object_in(text: str) -> dict[str, Any] | None:
    """Returns the JSON object in a reply, also within a fence or between sentences; None if there is none."""
    start, end = text.find("{"), text.rfind("}")
    return json_object(text[start : end + 1]) if 0 <= start < end else None


def _evidence(positions: Sequence[Position]) -> str:
    blocks = []
    for each in positions:
        lines = [f"{each.name}: {_cut(each.now)}"]
        lines += [f"  changed; before: {_cut(each.said)}"] if each.has_changed else []
        lines += [f"  found by: {each.method}"] if each.method else []
        lines += [f"  a check of it: {each.check}"] if each.check else []
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def _listed(positions: Sequence[Position]) -> str:
    return "\n".join(f"{each.name}: {_cut(each.now)}" for each in positions) or "(none)"


def _because(data: Mapping[str, Any]) -> str:
    reason = _text(data.get("reason")).strip()
    return f": {reason}" if reason else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return shortened(text, MAX_SHOWN)
