"""Identifiers of agents, runs and messages."""

from __future__ import annotations

import uuid


def new_id() -> str:
    """Returns a random identifier of 32 hexadecimal digits."""
    return uuid.uuid4().hex
