"""Checks the result of a subtask before anything builds on it."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from archon.errors import InvalidArgument, OutputMismatch
from archon.json_text import json_or
from archon.output import OutputType
from archon_mesh.core.messages import ChatMessage
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.plan.templates import as_text
from archon_mesh.llm import deadline
from archon_mesh.llm.base import ModelClient, ModelRequest
from archon_mesh.llm.text_format import ParsingError, extract_json_from_text

MAX_RESULT: Final = 1024 * 1024
"""Characters of a result."""

MAX_SCHEMA: Final = 20_000
"""Characters of an expectation that is read as a JSON schema."""

CHECK_TIMEOUT: Final = 60.0
"""Seconds of a check by a model."""

_NO_JSON: Final = object()
_MAX_SHOWN: Final = 20_000
_ERROR: Final = re.compile(r"\s*(?:error|exception|failed|failure)\s*:|\s*Traceback \(most recent call last\)", re.I)
_SCHEMA_KEYS: Final = frozenset(
    {"type", "properties", "required", "items", "enum", "$schema", "anyOf", "oneOf", "allOf"}
)
_PROMPT: Final = (
    "You check the result of one step of a plan. The user's JSON object has the step, what is expected and the result. "
    'Reply with one JSON object and nothing else: {"ok": true, "problem": "", "confidence": 0.9}. `ok` is false if the '
    "result does not do what the step asks for; `problem` then says what is wrong, in one sentence."
)


@dataclass(frozen=True, slots=True)
class CheckedResult:
    """The outcome of a check: the problem, or an empty text, and the confidence in the result from 0 to 1."""

    problem: str = ""
    confidence: float = 1.0


ResultCheck = Callable[[SubTask, Any], Awaitable[CheckedResult]]
"""Checks a result in addition to the rules."""


def check_by_rules(subtask: SubTask, result: Any) -> str:
    """Returns the problem of a result, or an empty text: it is too large, does not match the `output_schema`, is empty,
    the text of an error, or does not match `expected_output` if that is a JSON schema. The result of an exact step may
    be anything."""
    text = as_text(result) if result is not None else ""
    if len(text) > MAX_RESULT:
        return f"the result has {len(text):,} characters; at most {MAX_RESULT:,} are kept"
    if subtask.output_schema:
        return _mismatch(subtask.output_schema, result)
    if subtask.exact:
        return ""
    if not text.strip() or text in ("{}", "[]", "null"):
        return "the result is empty"
    if _ERROR.match(text) or _is_error_object(result):
        return f"the result is an error: {text[:300]}"
    schema = _schema_of(subtask.expected_output)
    return _mismatch(schema, result) if schema is not None else ""


def check_by_model(model: ModelClient) -> ResultCheck:
    """Returns a check by a model. A reply that cannot be read accepts the result."""

    async def check(subtask: SubTask, result: Any) -> CheckedResult:
        data = {
            "step": subtask.description,
            "expected": subtask.expected_output,
            "result": as_text(result)[:_MAX_SHOWN],
        }
        messages = (ChatMessage("system", _PROMPT), ChatMessage("user", json.dumps(data, ensure_ascii=False)))
        request = ModelRequest(messages, temperature=0.0, timeout=CHECK_TIMEOUT, idle_timeout=CHECK_TIMEOUT)
        try:
            verdict = extract_json_from_text((await deadline.generate(model, request)).text)
        except ParsingError:
            return CheckedResult()
        return _verdict(verdict)

    return check


def _verdict(verdict: Any) -> CheckedResult:
    if not isinstance(verdict, dict):
        return CheckedResult()
    confidence = verdict.get("confidence")
    is_number = isinstance(confidence, (int, float)) and not isinstance(confidence, bool)
    problem = "" if verdict.get("ok", True) is not False else str(verdict.get("problem") or "it is not as expected")
    return CheckedResult(problem, min(1.0, max(0.0, float(confidence))) if is_number else 1.0)  # type: ignore[arg-type]


def _is_error_object(result: Any) -> bool:
    if isinstance(result, str) and result.lstrip().startswith("{") and len(result) < _MAX_SHOWN:
        result = json_or(result)
    return isinstance(result, Mapping) and bool(result.get("error")) and len(result) <= 2


def _schema_of(expected: str) -> dict[str, Any] | None:
    if not expected.lstrip().startswith("{") or len(expected) > MAX_SCHEMA:
        return None
    schema = json_or(expected)
    return schema if isinstance(schema, dict) and _SCHEMA_KEYS & schema.keys() else None


def _mismatch(schema: Mapping[str, Any], result: Any) -> str:
    try:
        expected = OutputType(_bounded(schema))
    except InvalidArgument:
        return ""  # the expectation is no schema after all
    value = _value_of(schema, result)
    if value is _NO_JSON:
        return "the result is not JSON, as the expected output asks for"
    try:
        expected.validate(value)
    except OutputMismatch as error:
        violation = error.field_violations[0]
        return f"the result does not match the expected output: {violation.field}: {violation.description}"
    return ""


def _value_of(schema: Mapping[str, Any], result: Any) -> Any:
    """Returns a result as a JSON value; a text that is no JSON as itself if the schema describes a text."""
    if not isinstance(result, str):
        return result
    value = json_or(result, _NO_JSON)
    is_text = schema.get("type") == "string" and not isinstance(value, str)
    return result if is_text else value


def _bounded(schema: Any) -> Any:
    """Leaves out keywords that may take for ever in a schema that a model wrote: regular expressions, and comparisons
    of all items of a list."""
    if isinstance(schema, Mapping):
        return {
            key: _bounded(value)
            for key, value in schema.items()
            if key not in ("pattern", "patternProperties", "uniqueItems")
        }
    return [_bounded(item) for item in schema] if isinstance(schema, list) else schema
