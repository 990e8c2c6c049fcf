"""The content of a recorded prompt: the origin and cost of each message, and the problems of the prompt."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.core.media import Media
from archon_mesh.core.messages import SHARED_CONTEXT_PREFIX
from archon_mesh.llm.base import estimate_file, estimate_tokens

NEAR_LIMIT: Final = 0.8
"""Part of the context window from which on a prompt is near its limit."""

MIN_DUPLICATE: Final = 80
"""Characters of a text that is reported if it is there twice."""

MIN_CONTAINED: Final = 200
"""Characters of a text that is reported if another message contains it."""

MAX_COMPARED: Final = 200
"""Messages of a prompt that are compared with each other, the first ones."""

REDACTED: Final = "redacted"
TOOLS: Final = "definitions of tools"
UNKNOWN: Final = "unknown"
LABELS: Final = {
    "system_prompt": "own system prompt",
    "awareness": "awareness of other roles",
    "session_history": "session history",
    "summary": "summary of earlier messages",
    "memory": "retrieved memory",
    "input": "input of the task",
    "step": "earlier step of this run",
    "tool_result": "tool result",
    "note": "note of the agent loop",
    "output": "schema of the answer",
    "hook": "added by a hook",
    UNKNOWN: "origin not recorded",
}
_COMPARED: Final = frozenset(LABELS) - {"step", "note", "awareness"} | {"shared_context"}
"""Origins whose texts should be there once."""


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt. `text` is empty if its content was redacted; `fingerprint` tells equal texts apart from
    others either way."""

    number: int
    role: str
    origin: str
    label: str
    tokens: int
    text: str
    fingerprint: str
    chars: int
    source: str = ""
    """The role of shared context."""


@dataclass(frozen=True, slots=True)
class Section:
    """All messages of one origin, or all tools. `share` is the part of the context window, None if that is unknown."""

    label: str
    count: int
    tokens: int
    share: float | None


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected content of a task's prompts: context of the roles that it depends on, and the context it was given;
    and an awareness message, if it can delegate to both roles of an edge. `roles` have tasks in the run."""

    depends_on: tuple[str, ...] = ()
    given: frozenset[str] = frozenset()
    edges: tuple[tuple[str, str], ...] = ()
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Prompt:
    """A recorded prompt. `tokens` are those that the provider counted, or an estimate; `window` is 0 if unknown."""

    messages: list[PromptMessage]
    sections: list[Section]
    tokens: int
    estimated: bool
    window: int
    warnings: list[str] = field(default_factory=list)
    cached: int = 0
    """Tokens that the provider read from its cache."""
    advice: list[str] = field(default_factory=list)
    """Advice that follows from other prompts of the run."""


def read_prompt(record: run_pb2.RunRecord, window: int, expected: Expected | None = None) -> Prompt:
    """Returns the prompt of a model call. `expected` is None if the expected content is unknown."""
    request = request_of(record)
    messages = list(_messages(request))
    tools = request.get("tools") or []
    sections = _sections(messages, tools, window)
    estimate = sum(section.tokens for section in sections)
    counted = record.usage.input_tokens
    is_estimated = not counted or record.usage.estimated
    cached = min(counted, record.usage.cached_input_tokens)
    prompt = Prompt(messages, sections, counted or estimate, is_estimated, window, cached=cached)
    offered = {str((tool.get("function") or {}).get("name", "")) for tool in tools}
    prompt.warnings.extend(_warnings(prompt, expected or Expected(), offered))
    return prompt


def request_of(record: run_pb2.RunRecord) -> dict[str, Any]:
    """Returns the recorded request; an unknown form as the value of `request`."""
    request = json.loads(record.request_json or "null")
    return request if isinstance(request, dict) else {"request": request}


def messages_of(request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the messages of a request; none if they are in an unknown form."""
    messages = request.get("messages")
    return messages if isinstance(messages, list) and all(isinstance(each, dict) for each in messages) else []


def expectations(run: run_pb2.Run, events: Sequence[run_pb2.RunEvent]) -> dict[tuple[str, int], Expected]:
    """Returns the expected content of each attempt's prompts, by task id and attempt. `events` are the run's
    `dispatched` events; without them, the given context is unknown, and nothing is expected."""
    expected: dict[tuple[str, int], Expected] = {}
    roles = frozenset(task.role for task in run.tasks)
    edges = tuple((edge.upstream, edge.downstream) for edge in run.edges)
    for event in events:
        role = event.dispatched.role
        depends_on = tuple(dict.fromkeys(upstream for upstream, downstream in edges if downstream == role))
        given = frozenset(ref.role for ref in event.dispatched.given)
        expected[event.task.task_id, event.task.attempt] = Expected(depends_on, given, edges, roles)
    return expected


def redaction(value: Any) -> Mapping[str, Any] | None:
    """Returns the placeholder of a redacted text; None if the value is not redacted."""
    content = value.get(REDACTED) if isinstance(value, dict) else None
    return content if isinstance(content, dict) else None


def labels_of(message: Mapping[str, Any]) -> list[str]:
    """Returns a label for each file of a recorded message, as far as it was not redacted."""
    return [_file_label(file) for file in _files(message)]


def _files(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    files = message.get("files")
    return [file for file in files if isinstance(file, dict)] if isinstance(files, list) else []


def _file_label(file: Mapping[str, Any]) -> str:
    name, url = file.get("name"), file.get("url")
    shown = [name] if isinstance(name, str) else []
    place = str(url) if isinstance(url, str) else "a URL"
    size = f"{int(file.get('bytes') or 0):,} bytes" if "bytes" in file else place
    return f"[{', '.join([*shown, str(file.get('media_type', '')), size])}]"


def _file_tokens(file: Mapping[str, Any]) -> int:
    return estimate_file(Media(b"", str(file.get("media_type", ""))).kind, int(file.get("bytes") or 0))


def _messages(request: Mapping[str, Any]) -> Iterator[PromptMessage]:
    messages = messages_of(request)
    origins = request.get("origins") or []
    names: dict[str, str] = {}
    for number, message in enumerate(messages, start=1):
        recorded = origins[number - 1] if len(origins) == len(messages) else None
        calls = message.get("tool_calls") or []
        names.update((str(call.get("id", "")), str((call.get("function") or {}).get("name", ""))) for call in calls)
        origin = recorded if isinstance(recorded, dict) else _derived(message)
        kind = str(origin.get("kind", UNKNOWN))
        content, removed = message.get("content"), redaction(message.get("content"))
        text = "" if removed is not None else str(content or "")
        body = text.removeprefix(f"{SHARED_CONTEXT_PREFIX}{_source(origin)}:\n")
        yield PromptMessage(
            number,
            str(message.get("role", "")),
            kind,
            _label(message, origin, kind, names),
            _size(content, "tokens")
            + sum(_call_tokens(call) for call in calls)
            + sum(_file_tokens(file) for file in _files(message)),
            text,
            str(removed.get("hash", "")) if removed is not None else " ".join(body.split()),
            _size(content, "chars"),
            str(origin.get("role") or "") if kind == "shared_context" else "",
        )


def _source(origin: Mapping[str, Any]) -> str:
    """Returns the role of shared context, and its step if it has one."""
    step = origin.get("step")
    return f"{origin.get('role')} ({step})" if step else str(origin.get("role"))


def _derived(message: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the origin of a message of a record without origins, as far as the message tells."""
    metadata = message.get("metadata") or {}
    if metadata.get("shared_memory") is True:
        role, version = metadata.get("shared_memory_source"), metadata.get("shared_memory_version")
        return {"kind": "shared_context", "role": role, "version": version}
    if metadata.get("orchestrator_awareness") is True:
        return {"kind": "awareness"}
    return {"kind": "tool_result" if message.get("role") == "tool" else UNKNOWN}


def _label(message: Mapping[str, Any], origin: Mapping[str, Any], kind: str, names: Mapping[str, str]) -> str:
    if kind == "shared_context":
        return f"shared context v{origin.get('version')} of {_source(origin)}"
    if kind == "tool_result":
        call_id = str(message.get("tool_call_id") or "")
        return f"result of {origin.get('tool') or names.get(call_id) or 'an unknown call'} ({call_id})"
    return LABELS.get(kind, kind)


def _size(content: Any, name: str) -> int:
    removed = redaction(content)
    if removed is not None:
        return int(removed.get(name) or 0)
    text = str(content or "")
    return estimate_tokens(text) if name == "tokens" else len(text)


def _call_tokens(call: Mapping[str, Any]) -> int:
    function = call.get("function") or {}
    name, arguments = str(function.get("name", "")), function.get("arguments")
    if redaction(arguments) is not None:
        return estimate_tokens(name) + _size(arguments, "tokens")
    return estimate_tokens(name + str(arguments or ""))


def _tool_tokens(tool: Mapping[str, Any]) -> int:
    function = tool.get("function") or {}
    name = str(function.get("name", ""))
    if redaction(function) is not None:
        return estimate_tokens(name) + _size(function, "tokens")
    return estimate_tokens(name + str(function.get("description", "")) + json.dumps(function.get("parameters") or {}))


def _sections(messages: Sequence[PromptMessage], tools: Sequence[Mapping[str, Any]], window: int) -> list[Section]:
    """Returns the sections in the order of their first messages; tools come last."""
    groups: dict[str, list[int]] = {}
    for message in messages:
        label = LABELS["tool_result"] if message.origin == "tool_result" else message.label
        groups.setdefault(label, []).append(message.tokens)
    if tools:
        groups[TOOLS] = [_tool_tokens(tool) for tool in tools]
    return [
        Section(label, len(tokens), sum(tokens), sum(tokens) / window if window else None)
        for label, tokens in groups.items()
    ]


def _warnings(prompt: Prompt, expected: Expected, offered: set[str]) -> Iterator[str]:
    if prompt.window and prompt.tokens >= NEAR_LIMIT * prompt.window:
        mark = "~" if prompt.estimated else ""
        yield (
            f"near the limit: {mark}{prompt.tokens:,} of {prompt.window:,} tokens of the context window "
            f"({prompt.tokens / prompt.window:.0%})"
        )
    yield from _missing(prompt, expected, offered)
    yield from _duplicates(prompt.messages)


def _missing(prompt: Prompt, expected: Expected, offered: set[str]) -> Iterator[str]:
    if not prompt.messages:  # the request is in an unknown form, or was too large to record
        return
    origins = {message.origin for message in prompt.messages}
    sources = {message.source for message in prompt.messages}
    for role in expected.depends_on:
        if role not in sources and role not in expected.given:
            why = "it had no answer yet" if role in expected.roles else "the run has no task for it"
            yield f"missing: the shared context of {role}, which this role depends on and was not given ({why})"
    for role in sorted(expected.given - sources):
        yield f"missing: the shared context of {role}, which was delivered with the attempt"
    for upstream, downstream in expected.edges:
        if "awareness" not in origins and {upstream, downstream} <= offered:
            yield f"missing: the awareness that {downstream} depends on {upstream}; the model can call both"
    if UNKNOWN not in origins and "input" not in origins:
        yield "missing: the input of the task"


def _duplicates(messages: Sequence[PromptMessage]) -> Iterator[str]:
    compared = [message for message in messages[:MAX_COMPARED] if message.origin in _COMPARED]
    compared = [message for message in compared if message.chars >= MIN_DUPLICATE and message.fingerprint]
    for first, second in combinations(compared, 2):
        if first.fingerprint == second.fingerprint:
            yield f"duplicate: the text of message {first.number} ({first.label}) is there again as {_name(second)}"
            continue
        if not first.text or not second.text:
            continue
        shorter, longer = sorted((first, second), key=lambda message: len(message.fingerprint))
        if len(shorter.fingerprint) >= MIN_CONTAINED and shorter.fingerprint in longer.fingerprint:
            yield f"duplicate: the text of {_name(shorter)} is a part of {_name(longer)}"


def _name(message: PromptMessage) -> str:
    return f"message {message.number} ({message.label})"
