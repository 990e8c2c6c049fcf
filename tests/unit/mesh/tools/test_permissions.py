"""Permissions of tools: by name, by pattern, per session."""

from __future__ import annotations

from typing import Any

import pytest

from archon.errors import PermissionDenied
from archon_mesh.tools.permissions import ToolPermissions


@pytest.mark.parametrize(
    ("permissions", "name", "dangerous", "session_id", "refusal"),
    [
        ({}, "add", False, "", None),
        ({}, "shell", True, "", "tool shell is dangerous and not allowed by its name"),
        ({"allowed": ["add"]}, "add", False, "", None),
        ({"allowed": ["add"]}, "shell", False, "", "tool shell is not allowed"),
        ({"allowed": ["*"]}, "shell", False, "", None),
        ({"allowed": ["*"]}, "shell", True, "", "tool shell is dangerous and not allowed by its name"),
        ({"allowed": ["*", "shell"]}, "shell", True, "", None),
        ({"allowed": ["math.*"]}, "math.add", False, "", None),
        ({"allowed": ["math.*"]}, "text.add", False, "", "tool text.add is not allowed"),
        ({"allowed": ["add"], "denied": ["add"]}, "add", False, "", "tool add is denied"),
        ({"denied": ["math.*"]}, "math.add", False, "", "tool math.add is denied"),
        ({"sessions": {"s": {"denied": ["add"]}}}, "add", False, "s", "tool add is denied"),
        ({"sessions": {"s": {"denied": ["add"]}}}, "add", False, "t", None),
        ({"sessions": {"s": {"allowed": ["shell"]}}}, "shell", True, "s", None),
        (
            {"sessions": {"s": {"allowed": ["shell"]}}},
            "shell",
            True,
            "t",
            "tool shell is dangerous and not allowed by its name",
        ),
        ({"sessions": {"s": {"allowed": ["shell"]}}}, "add", False, "s", "tool add is not allowed"),
        ({"allowed": ["add"], "sessions": {"s": {"allowed": ["sub"]}}}, "sub", False, "s", None),
        ({"denied": ["shell"], "sessions": {"s": {"allowed": ["shell"]}}}, "shell", True, "s", "tool shell is denied"),
    ],
)
def test_denial_wins_and_dangerous_tools_are_off_unless_named(
    permissions: dict[str, Any], name: str, dangerous: bool, session_id: str, refusal: str | None
) -> None:
    given = ToolPermissions.of(permissions)
    assert given.refusal(name, dangerous=dangerous, session_id=session_id) == refusal
    if refusal is not None:
        with pytest.raises(PermissionDenied, match=refusal):
            given.check(name, dangerous=dangerous, session_id=session_id)


@pytest.mark.parametrize("wrong", [{"alowed": []}, {"allowed": "add"}, {"denied": 3}])
def test_unreadable_permissions_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        ToolPermissions.of(wrong)
