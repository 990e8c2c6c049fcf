"""The offline model as a planner: splits a query by rules of text, and gives each step the tool or role that fits."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from archon_mesh.core.messages import ChatMessage
from archon_mesh.core.plan.alignment import asks_for_alignment
from archon_mesh.core.plan.prompt import PlannerInput, read_planner_input
from archon_mesh.core.plan.synthesis import read_synthesis
from archon_mesh.core.words import stem, topic_stems, words
from archon_mesh.llm.offline_tasks import NOTICE
from archon_mesh.llm.offline_text import split_sentences
from archon_mesh.llm.offline_words import IMPERATIVES, QUESTION_STARTS

MAX_STEPS: Final = 20
"""Steps of a query; what comes after them is part of the last one."""

_NEAR: Final = 200

# Repetitions have bounds, so that the time is linear in the length of any query.
_JOIN: Final = re.compile(
    r"\s{0,5}(?:(?P<next>(?:[,;]\s{0,5})?\band\s{1,5}then\b|[,;]\s{0,5}then\b)|(?P<bare>\bthen\b)"
    r"|(?P<part>;\s{0,5}(?:and\b)?)|(?P<list>,\s{0,5}and\b)|(?P<both>\band\b)),?\s{0,5}",
    re.IGNORECASE,
)
_JOINS: Final = {"next": "and then", "bare": "then", "part": ";", "list": ", and", "both": "and"}
_CONDITION: Final = re.compile(r"\s*(?:if|when|once|unless)\b", re.IGNORECASE)
_OPERAND: Final = r"[-+(]{0,20}\d[\d.,]{0,30}(?:\s{0,5}%)?\){0,20}"
_OPERATOR: Final = r"(?:\*\*|//|[-+*/^\u00d7\u00f7]|\bof\b|\btimes\b|\bplus\b|\bminus\b|\bdivided by\b|(?<=\s)x(?=\s))"
_ARITHMETIC: Final = re.compile(rf"(?<![\w.]){_OPERAND}(?:\s{{0,5}}{_OPERATOR}\s{{0,5}}{_OPERAND})+")
_SYMBOLS: Final = (("\u00d7", "*"), ("\u00f7", "/"), (" x ", " * "), ("times", "*"), ("plus", "+"), ("minus", "-"))
_BACKWARD: Final = re.compile(
    r"\b(?:the\s+\w+\s+ones?|it|its|them|their|that|this|these|those|the\s+(?:results?|answers?|sum|product|outcome|number|total))\b",
    re.I,
)
_FILLERS: Final = frozenset({"please", "also", "first", "next", "finally"})
_OTHER_VERBS: Final = """
    book buy call describe discuss explain get go learn look make order pay plan play prepare read research say see
    solve summarise summarize take tell think visit work
    """
_FIRST_WORDS: Final = IMPERATIVES | QUESTION_STARTS | frozenset(_OTHER_VERBS.split())
_CALCULATOR: Final = frozenset(map(stem, ("calculator", "arithmetic", "calculate", "math", "mathematics", "compute")))


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a query. It needs the results of the parts that `after` has the positions of."""

    text: str
    after: tuple[int, ...] = ()


def write_plan(messages: Sequence[ChatMessage]) -> str | None:
    """Returns the reply to a planner's prompt, in JSON, to the prompt for the answer of a plan, or to the question
    whether a plan still serves its query, which no rule of text denies; None if these messages are none of them."""
    planner_input = read_planner_input(messages)
    if planner_input is not None:
        return json.dumps(_plan(planner_input), ensure_ascii=False)
    if asks_for_alignment(messages):
        return json.dumps({"aligned": True})
    results = read_synthesis(messages)
    return None if results is None else "\n\n".join([NOTICE, *map(_part, results)])


def split_query(query: str) -> list[Step]:
    """Splits a query into steps: at the items of a list, at sentences, at ";", at "then", and at "and" if both of its
    sides are steps. What comes after a "then", items of a list, and what refers back need the result before them."""
    steps: list[Step] = []
    for sentence in split_sentences(query):
        for text, is_next in _clauses(sentence.text):
            needs = bool(steps) and (is_next or sentence.is_item or _refers_back(text))
            steps.append(Step(text, (len(steps) - 1,) if needs else ()))
    if len(steps) > MAX_STEPS:
        rest = " ".join(step.text for step in steps[MAX_STEPS - 1 :])
        steps = [*steps[: MAX_STEPS - 1], Step(rest, (MAX_STEPS - 2,))]
    return steps


def expression_in(text: str) -> str:
    """Returns the arithmetic expression in a text as a calculator reads it, or an empty text."""
    match = _ARITHMETIC.search(text)
    if match is None:
        return ""
    expression = match[0].strip().rstrip(".,")
    for symbol, instead in _SYMBOLS:
        expression = expression.replace(symbol, instead)
    expression = re.sub(r"divided by", "/", expression)
    expression = re.sub(r"(?<=\d),(?=\d{3})", "", expression)
    return "" if "," in expression else expression + ")" * (expression.count("(") - expression.count(")"))


def _part(result: Mapping[str, Any]) -> str:
    text = str(result.get("result", "")).removeprefix(NOTICE).strip()
    if result.get("status") != "completed":
        text = "There is no result." if result.get("result") in (None, "null") else f"There is no result: {text}"
    return f"## {result.get('step', '')}\n\n{text}"


def _clauses(sentence: str) -> list[tuple[str, bool]]:
    """Returns the clauses of a sentence, and whether each comes after the one before it."""
    clauses: list[tuple[str, bool]] = []
    start, is_next, end = 0, False, len(sentence.rstrip(" .!?"))
    for match in _JOIN.finditer(sentence):
        # Only a few characters on each side: a query may be one long sentence.
        head = sentence[start : min(start + _NEAR, match.start())]
        tail = sentence[max(start, match.start() - _NEAR) : match.start()]
        right = sentence[match.end() : match.end() + _NEAR]
        join = _JOINS[match.lastgroup or "both"]
        is_condition = "then" in join and _CONDITION.match(head)
        joins_steps = not is_condition and _are_steps(head, tail, right, join)
        if tail.strip(" ,;") and match.end() < end and joins_steps:
            clauses.append((sentence[start : match.start()].strip(" ,;"), is_next))
            start, is_next = match.end(), "then" in join
    last = sentence[start:].strip(" ,;").rstrip(".!")
    return [*clauses, (last, is_next)] if last else clauses


def _are_steps(head: str, tail: str, right: str, join: str) -> bool:
    """Tells whether a word joins two steps, and not two nouns: a verb behind it says so, or arithmetic beside it, or a
    comma before it that ends no list."""
    if join in (";", "and then") or _ARITHMETIC.search(tail) or _ARITHMETIC.match(right):
        return True
    if not _is_step(right):
        return join == ", and" and "," not in head and len(words(right)) > 1
    return "then" in join or _is_step(head)


def _is_step(text: str) -> bool:
    """Tells whether a text begins as an order or a question does."""
    return next((word for word in words(text[:_NEAR]) if word not in _FILLERS), "") in _FIRST_WORDS


def _refers_back(text: str) -> bool:
    return _BACKWARD.search(text) is not None


def _plan(planner_input: PlannerInput) -> dict[str, Any]:
    progress = planner_input.progress or ()
    done = {_key(str(entry.get("description", ""))) for entry in progress if entry.get("status") == "completed"}
    failed = {str(entry.get("tool_name") or "") for entry in progress if entry.get("status") == "failed"}
    steps = split_query(planner_input.query)
    subtasks = []
    ids = {index: str(index + 1) for index in range(len(steps))}
    for index, step in enumerate(steps):
        if _key(step.text) in done:
            continue
        subtask: dict[str, Any] = {"id": ids[index], "description": step.text}
        subtask |= _binding(step.text, planner_input, failed)
        subtask["dependencies"] = [ids[source] for source in step.after]
        subtasks.append(subtask)
    return {"goal": planner_input.query, "subtasks": subtasks}


def _key(text: str) -> str:
    return " ".join(text.lower().split())


def _binding(text: str, planner_input: PlannerInput, failed: set[str]) -> dict[str, Any]:
    """Returns the tool with its arguments, or the role, that fits a step best; nothing if none fits."""
    tools = [tool for tool in planner_input.tools if tool.get("name") not in failed]
    expression = expression_in(text)
    topic = topic_stems(text)
    if expression:
        topic |= _CALCULATOR
        for tool in tools:
            if _CALCULATOR & topic_stems(f"{tool.get('name')} {tool.get('description')}"):
                return _call(tool, expression)
    best: dict[str, Any] = {}
    most = 0
    for name, description in planner_input.roles.items():
        if (shared := len(topic & topic_stems(f"{name} {description}"))) > most:
            best, most = {"role": name}, shared
    for tool in tools:
        if (shared := len(topic & topic_stems(f"{tool.get('name')} {tool.get('description')}"))) > most:
            best, most = _call(tool, text), shared
    return best


def _call(tool: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Returns a call of a tool with the text as its argument, or without arguments if it needs other ones."""
    parameters = tool.get("parameters")
    schema = parameters if isinstance(parameters, Mapping) else {}
    properties: Mapping[str, Mapping[str, object]] = schema.get("properties") or {}
    required: Sequence[str] = schema.get("required") or ()
    is_text = len(required) == 1 and properties.get(required[0], {}).get("type", "string") == "string"
    # Braces of the query are no templates.
    literal = text.replace("{", "{{").replace("}", "}}")
    return {"tool_name": tool.get("name"), "tool_args": {required[0]: literal} if is_text else {}}
