"""The contents of messages, by their types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, Final, Literal, get_args

from archon.errors import FieldViolation, InvalidArgument
from archon.types.message_type import MessageType

Outcome = Literal["success", "partial", "failed"]


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """Requests work. `deadline` is in seconds since the Unix epoch; of several requests, one with a higher `priority`
    comes first."""

    description: str
    task_id: str = ""
    expected_output: str = ""
    deadline: float | None = None
    priority: int = 0
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskResponse:
    """Answers a request. `status` is `success`, `partial` or `failed`; `error` says why."""

    status: Outcome
    result: Any = None
    task_id: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """Reports how far a task is; `progress` is from 0 to 1."""

    status: str
    task_id: str = ""
    progress: float | None = None


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """Reports an error. `kind` names a kind of failure, such as `tool.timeout`."""

    error: str
    task_id: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class InformationShare:
    """Shares a fact: the `value` of a `key`, with the sender's `confidence` in it, from 0 to 1."""

    key: str
    value: Any = None
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """Requests context: an answer to a `query`, or the values of `keys`."""

    query: str = ""
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HelpRequest:
    """Requests help with an `issue` of a task."""

    issue: str
    task_id: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Notification:
    """Informs, and expects no answer."""

    text: str


MessageContent = (
    TaskRequest
    | TaskResponse
    | StatusUpdate
    | ErrorReport
    | InformationShare
    | ContextRequest
    | HelpRequest
    | Notification
)

_TYPES: Final[dict[MessageType, type[Any]]] = {
    MessageType.TASK_REQUEST: TaskRequest,
    MessageType.TASK_RESPONSE: TaskResponse,
    MessageType.STATUS_UPDATE: StatusUpdate,
    MessageType.ERROR: ErrorReport,
    MessageType.INFORMATION_SHARE: InformationShare,
    MessageType.CONTEXT_REQUEST: ContextRequest,
    MessageType.HELP_REQUEST: HelpRequest,
    MessageType.NOTIFICATION: Notification,
}
_NAMES: Final = {content: kind for kind, content in _TYPES.items()}

_TEXTS: Final = {
    MessageType.TASK_REQUEST: "description",
    MessageType.STATUS_UPDATE: "status",
    MessageType.ERROR: "error",
    MessageType.CONTEXT_REQUEST: "query",
    MessageType.HELP_REQUEST: "issue",
    MessageType.NOTIFICATION: "text",
}
"""The field that a content which is a mere text stands for."""


def type_of(content: object) -> MessageType | None:
    """Returns the type of messages with this content; None if it is a text or another JSON value."""
    return _NAMES.get(type(content))


def to_json_value(content: object) -> Any:
    """Returns a content as its fields; a value of JSON, of a message without a type, as it is."""
    if type(content) not in _NAMES:
        return content
    values = asdict(content)  # type: ignore[call-overload]
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def content_of(kind: MessageType, content: Any) -> MessageContent:
    """Returns a content, as a message carries it, as the value of its type. Raises InvalidArgument if it is not of that
    form; fields that the type does not have are left out."""
    made = _TYPES[kind]
    if isinstance(content, str):
        if kind is MessageType.TASK_RESPONSE:
            return TaskResponse("success", content)
        if kind not in _TEXTS:
            raise _unfit(kind, "content", "must be an object")
        content = {_TEXTS[kind]: content}
    if not isinstance(content, Mapping):
        raise _unfit(kind, "content", "must be an object")
    values = {field.name: content[field.name] for field in fields(made) if field.name in content}
    for each in fields(made):
        if each.name not in values and each.default is MISSING and each.default_factory is MISSING:
            raise _unfit(kind, each.name, "is missing")
    for name, value in values.items():
        if (fault := _fault(made, name, value)) is not None:
            raise _unfit(kind, name, fault)
    if "keys" in values:
        values["keys"] = tuple(values["keys"])
    return made(**values)  # type: ignore[no-any-return]


def _fault(made: type[Any], name: str, value: Any) -> str | None:
    """The fault of the value of a field; None if there is none. Fields of one name are of one type."""
    match name:
        case "result" | "value":
            return None
        case "status" if made is TaskResponse:
            return None if value in get_args(Outcome) else f"must be one of {', '.join(get_args(Outcome))}"
        case "context":
            return None if isinstance(value, Mapping) else "must be an object"
        case "keys":
            fits = isinstance(value, (list, tuple)) and all(isinstance(key, str) for key in value)
            return None if fits else "must be a list of texts"
        case "priority":
            return None if isinstance(value, int) and not isinstance(value, bool) else "must be a whole number"
        case "deadline" | "progress" | "confidence":
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            return None if is_number or (value is None and name != "confidence") else "must be a number"
    return None if isinstance(value, str) else "must be a text"


def _unfit(kind: MessageType, name: str, fault: str) -> InvalidArgument:
    return InvalidArgument(
        f"not the content of a message of type {kind}: {name} {fault}", field_violations=[FieldViolation(name, fault)]
    )
