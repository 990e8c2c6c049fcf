"""Errors of tools, part of the error tree of `archon.errors`."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from archon.errors import AlreadyExists, NotFound, PermissionDenied
from archon.failure_kinds import HALLUCINATION, TOOL_PERMISSION

__all__ = ["DuplicateTool", "MissingCredentials", "UnknownTool"]

MAX_NAMES: Final = 50
"""Names of tools in a message."""


class UnknownTool(NotFound):
    """No tool is registered under this name; the message lists the names, the most similar ones first."""

    default_kind = HALLUCINATION

    def __init__(self, name: str, registered: Iterable[str]) -> None:
        names = list(registered)
        close = get_close_matches(name, names, n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ";"
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        super().__init__(f"no tool {name!r}{hint} registered: {', '.join(names[:MAX_NAMES]) or 'none'}{more}")


class DuplicateTool(AlreadyExists, ValueError):
    """A tool is registered under this name already."""


class MissingCredentials(PermissionDenied):
    """A tool needs a credential that the engine does not have; `metadata["credential"]` is its name."""

    default_kind = TOOL_PERMISSION

    def __init__(self, credential: str, tool_name: str = "") -> None:
        self.credential = credential
        metadata = {"credential": credential} | ({"tool": tool_name} if tool_name else {})
        super().__init__(f"missing credential {credential!r}", metadata=metadata)
