"""Values and keys of working memory, and their limits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from archon.errors import Aborted, FieldViolation, InvalidArgument, ResourceExhausted
from archon.wire import MAX_CHECKED_BYTES

MAX_KEY: Final = 256
"""Characters of a key."""

MAX_PUBLISH_BYTES: Final = MAX_CHECKED_BYTES + 64 * 1024
"""Bytes of a publish: an answer as large as a task's result may be, with its ids."""

MAX_VALUE_BYTES: Final = 1024 * 1024
"""Bytes of one value as JSON in UTF-8."""

MAX_KEYS: Final = 10_000
"""Keys of one scope, including deleted ones, whose versions are kept."""


@dataclass(frozen=True, slots=True)
class WorkingValue:
    """A current value. `version` counts the writes of the key from 1 and never goes back, not even after a delete;
    `timestamp` is in seconds since the Unix epoch."""

    key: str
    value: Any
    version: int
    timestamp: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkingChange:
    """A change of a key: its present value, or None if it was deleted."""

    key: str
    value: WorkingValue | None = None


def to_json(value: Any) -> str:
    """Encodes one JSON value. Raises InvalidArgument if the value is not JSON or would not be read back equal (a tuple,
    a key that is not a string), ResourceExhausted / MESSAGE_TOO_LARGE."""
    try:
        encoded = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(encoded.encode())
        if json.loads(encoded) != value:
            raise ValueError("it would not be read back equal")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"a value must be JSON: {error}", field_violations=[FieldViolation("value_json", "no JSON value")]
        ) from None
    check_size(size)
    return encoded


def from_json(text: str) -> Any:
    """Decodes one JSON value. Raises ValueError for anything else, also for Python's NaN and Infinity."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_key(key: str) -> str:
    """Returns the key. Raises InvalidArgument if it is not valid."""
    if not isinstance(key, str) or not is_key(key):
        rule = f"1 to {MAX_KEY} characters, none of them U+0000"
        raise InvalidArgument(f"key: {rule}", field_violations=[FieldViolation("key", rule)])
    return key


def is_key(key: str) -> bool:
    """Whether the key is valid."""
    return 0 < len(key) <= MAX_KEY and "\0" not in key


def check_size(size: int) -> None:
    """Checks the bytes of a value as JSON. Raises ResourceExhausted / MESSAGE_TOO_LARGE."""
    if size > MAX_VALUE_BYTES:
        raise ResourceExhausted(
            f"value_json has {size:,} bytes, more than the limit of {MAX_VALUE_BYTES:,}; pass large content by URL",
            reason="MESSAGE_TOO_LARGE",
            metadata={"size": str(size), "limit": str(MAX_VALUE_BYTES)},
            field_violations=[FieldViolation("value_json", "too large")],
        )


def check_expected(key: str, expected: int | None, current: int) -> None:
    """Raises Aborted / CONFLICT if `expected` is not the current version; 0 means that the key has no value."""
    if expected is not None and expected != current:
        raise Aborted(
            f"version conflict for {key!r}: expected {expected}, current version is {current}",
            reason="CONFLICT",
            metadata={"key": key, "version": str(current), "expected_version": str(expected)},
        )


def too_many_keys() -> ResourceExhausted:
    """The scope has no room for another key. Trying again does not help."""
    return ResourceExhausted(
        f"a scope has at most {MAX_KEYS:,} keys, deleted ones included", metadata={"limit": str(MAX_KEYS)}
    )


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
