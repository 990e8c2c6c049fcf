"""What working memory holds: JSON values under keys. Plain values, no wire."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from archon.errors import Aborted, FieldViolation, InvalidArgument, ResourceExhausted

MAX_KEY: Final = 256
"""Characters of a key."""

MAX_VALUE_BYTES: Final = 1024 * 1024
"""Of one value as JSON, in UTF-8."""

MAX_KEYS: Final = 10_000
"""Keys of one scope, those that were deleted included: their versions are kept."""


@dataclass(frozen=True, slots=True)
class WorkingValue:
    """A value as it stands. `version` counts the key's writes from 1 and never goes back, not after a delete either;
    `timestamp` is in seconds since the Unix epoch."""

    key: str
    value: Any
    version: int
    timestamp: float = 0.0


def to_json(value: Any) -> str:
    """One JSON value. Raises InvalidArgument for what is none, or wouldn't come back as it is: a tuple, a key that is
    no string; ResourceExhausted / MESSAGE_TOO_LARGE."""
    try:
        made = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(made.encode())
        if json.loads(made) != value:
            raise ValueError("it wouldn't come back as it is")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"a value must be JSON: {error}", field_violations=[FieldViolation("value_json", "no JSON value")]
        ) from None
    check_size(size)
    return made


def from_json(text: str) -> Any:
    """What it says. Raises ValueError where it isn't one JSON value: Python's own NaN and Infinity aren't."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def check_key(key: str) -> str:
    """The same. Raises InvalidArgument where it can't be a key."""
    if not isinstance(key, str) or not is_key(key):
        said = f"1 to {MAX_KEY} characters, none of them U+0000"
        raise InvalidArgument(f"key: {said}", field_violations=[FieldViolation("key", said)])
    return key


def is_key(key: str) -> bool:
    """Whether it can be one."""
    return 0 < len(key) <= MAX_KEY and "\0" not in key


def check_size(size: int) -> None:
    """Of a value as JSON. Raises ResourceExhausted / MESSAGE_TOO_LARGE."""
    if size > MAX_VALUE_BYTES:
        raise ResourceExhausted(
            f"value_json has {size:,} bytes; a value has at most {MAX_VALUE_BYTES:,}: pass large content by URL",
            reason="MESSAGE_TOO_LARGE",
            metadata={"size": str(size), "limit": str(MAX_VALUE_BYTES)},
            field_violations=[FieldViolation("value_json", "too large")],
        )


def check_expected(key: str, expected: int | None, stands: int) -> None:
    """`stands` is the version that stands, 0 where nothing does. Raises Aborted / CONFLICT where it is another."""
    if expected is not None and expected != stands:
        told = f"version {stands} of it stands" if stands else "nothing stands there"
        raise Aborted(
            f"version {expected} of {key!r} was expected, {told}",
            reason="CONFLICT",
            metadata={"key": key, "version": str(stands), "expected_version": str(expected)},
        )


def too_many_keys() -> ResourceExhausted:
    """Trying again doesn't help."""
    return ResourceExhausted(
        f"a scope has at most {MAX_KEYS:,} keys, deleted ones included", metadata={"limit": str(MAX_KEYS)}
    )


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
