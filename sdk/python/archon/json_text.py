"""Texts from elsewhere that should be JSON."""

from __future__ import annotations

import json
from typing import Any


def json_or(text: str, otherwise: Any = None) -> Any:
    """Returns the value of a JSON text, or `otherwise` if it is not JSON or nested too deep."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return otherwise


def json_object(text: str) -> dict[str, Any] | None:
    """Returns the object that a JSON text is, or None if it is anything else."""
    value = json_or(text)
    return value if isinstance(value, dict) else None
